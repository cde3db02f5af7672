"""Random: random bits ops."""

"""Collective: communication between replicas and partitions ops."""

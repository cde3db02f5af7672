"""Layouts: made explicit where they are visible, at custom calls."""

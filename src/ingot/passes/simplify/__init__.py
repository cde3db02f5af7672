"""Simplification: the same program with less in it. `pipeline.py` says in which order."""

"""Buffers: where every value lives. Flattening, copy insertion, assignment, its check."""

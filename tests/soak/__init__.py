"""Soak: trains, serves and recompiles for hours while faults happen; nothing may grow."""

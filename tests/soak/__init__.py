# SPDX-License-Identifier: Apache-2.0
"""Soak: trains, serves and recompiles for hours while faults happen; nothing may grow."""

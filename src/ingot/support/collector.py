# SPDX-License-Identifier: Apache-2.0
"""Pausing Python's garbage collector while a large graph grows.

Parsing and compiling make many small objects and almost no garbage, but each full collection walks
all objects of the process, which takes 20 ms in the process of a large framework.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Run no automatic collection in the block; a collector that was off stays off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

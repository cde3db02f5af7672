# SPDX-License-Identifier: Apache-2.0
"""Pausing Python's garbage collector while a large graph grows, or a compiler is imported.

Parsing and compiling make many small objects and almost no garbage, but each full collection walks
all objects of the process, which takes 0.2 s in the process of a large framework.
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


@contextmanager
def importing() -> Generator[None, None, None]:
    """Import from the archive of modules, and run no collection for what the block imports.

    None runs in the block, and none sooner because of it.

    Python walks the whole heap once it has grown by a quarter. Modules stay, so they are moved to
    the oldest generation without being counted as growth. Objects that the program froze itself
    stay frozen: then nothing is moved.
    """
    with collector_paused():
        from ingot.support.bytecode import archive

        archive()
        yield
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()

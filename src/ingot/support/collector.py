# SPDX-License-Identifier: Apache-2.0
"""Python's garbage collector, told to rest while a large graph grows.

Parsing and compiling make many small objects and next to no garbage; each full collection meanwhile
walks everything that the process holds, 20 ms beside a large framework.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Run no automatic collection inside the block; a collector that was off stays off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

# SPDX-License-Identifier: Apache-2.0
"""How many programs TensorFlow's built-in XLA compiled in this process, by its own counter.

TensorFlow counts each compilation in `/tensorflow/core/xla_compilations` and has no Python function
that reads it. Its C++ registry of metrics is exported: `CollectMetrics` gives a `std::map` from
names to points, which is read here where libstdc++ has it in memory.

Source: `xla/tsl/lib/monitoring/{collection_registry,collected_metrics}.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

COUNTER = "/tensorflow/core/xla_compilations"

_REGISTRY = "_ZN3tsl10monitoring18CollectionRegistry7DefaultEv"
_COLLECT = "_ZNK3tsl10monitoring18CollectionRegistry14CollectMetricsERKNS1_21CollectMetricsOptionsE"
_POINTS = 48
"""Where the second map of `CollectedMetrics` begins; a map's root is 16 bytes into it."""

_on_purpose = 0


@cache
def _functions() -> tuple[Callable[[], int], Callable[[int, int, int], None]]:
    import tensorflow as tf

    library = ctypes.CDLL(str(Path(tf.__file__).parent / "libtensorflow_framework.so.2"))
    registry = ctypes.CFUNCTYPE(ctypes.c_void_p)((_REGISTRY, library))
    types = (ctypes.c_void_p,) * 3
    return registry, ctypes.CFUNCTYPE(None, *types)((_COLLECT, library))


def count() -> int:
    """Return how many programs TensorFlow's XLA has compiled; the 50 KB read are never freed."""
    metrics, options = ctypes.c_void_p(), ctypes.create_string_buffer(16)
    registry, collect = _functions()
    collect(ctypes.addressof(metrics), registry(), ctypes.addressof(options))
    pending = [_word((metrics.value or 0) + _POINTS + 16)]
    while pending:
        node = pending.pop()
        if not node:
            continue
        pending += [_word(node + 16), _word(node + 24)]
        if ctypes.string_at(_word(node + 32), _word(node + 40)).decode() == COUNTER:
            points = _word(node + 64)
            return sum(
                _word(_word(item) + 32) for item in range(_word(points + 32), _word(points + 40), 8)
            )
    raise LookupError(f"TensorFlow has no counter {COUNTER}")


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


@contextmanager
def on_purpose() -> Generator[None]:
    """Let TensorFlow's XLA compile within this block."""
    global _on_purpose
    before = count()
    try:
        yield
    finally:
        _on_purpose += count() - before


def unasked() -> int:
    """Return how many programs TensorFlow's XLA has compiled outside of `on_purpose`."""
    return count() - _on_purpose

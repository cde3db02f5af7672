# SPDX-License-Identifier: Apache-2.0
"""Tests of `ingot.support.freed_memory`, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource
from ingot.support.freed_memory import keep_freed_memory
kept = keep_freed_memory({limit})
c = ctypes.CDLL(None)
c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
c.free.argtypes = (ctypes.c_void_p,)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [c.malloc(8 << 20) for _ in range(8)]
    for block in blocks:
        ctypes.memset(block, 1, 8 << 20)
    for block in blocks:
        c.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(kept, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
@pytest.mark.parametrize(
    ("limit", "environment", "kept"),
    [
        (1 << 30, {}, True),
        (0, {}, False),
        (1 << 30, {"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
    ],
)
def test_memory_is_faulted_in_once(limit: int, environment: dict[str, str], kept: bool) -> None:
    """64 MiB that are freed and made again take page faults unless they are kept."""
    inherited = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(limit=limit)],
        env={**inherited, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert output[0] == str(kept)
    assert (int(output[1]) < 100) == kept

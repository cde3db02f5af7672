# SPDX-License-Identifier: Apache-2.0
"""Memory between pages that nobody may touch: what reads or writes past an array faults.

`run_guarded` runs a program with every input, every output and the arena in such memory, all of
them ending at the page behind them or beginning at the page before.

Example:
    results = run_guarded(ingot.compile(module), inputs, at_end=True)
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ingot.artifact.abi import ARENA_SLOT
from ingot.client.executables.executable import Executable
from ingot.hlo.dtype import dtype
from ingot.runtime.native import native_runtime
from ingot.runtime.records import PROGRAM

Array = np.ndarray[Any, np.dtype[Any]]
PAGE = mmap.PAGESIZE
ARENA_ALIGNMENT = 64
_NO_ACCESS, _READ_AND_WRITE = 0, 3
_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_system = ctypes.CDLL(None, use_errno=True)
_system.mmap.restype = ctypes.c_void_p
_system.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@dataclass(slots=True)
class Guarded:
    """Blocks between guard pages, given back by `close`."""

    at_end: bool
    _mapped: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def take(self, count: int, alignment: int = 1) -> int:
        """Return the address of `count` bytes at the end, or the beginning, of their pages."""
        inside = -(-max(count, 1) // PAGE) * PAGE
        start = _system.mmap(None, inside + 2 * PAGE, _READ_AND_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        self._mapped.append((start, inside + 2 * PAGE))
        for guard in (start, start + PAGE + inside):
            assert _system.mprotect(guard, PAGE, _NO_ACCESS) == 0
        rounded = -(-count // alignment) * alignment
        return start + PAGE + (inside - rounded if self.at_end else 0)

    def copy(self, value: Array) -> int:
        """Return the address of a copy of `value`."""
        data = np.ascontiguousarray(value)
        address = self.take(data.nbytes)
        ctypes.memmove(address, data.ctypes.data, data.nbytes)
        return address

    def close(self) -> None:
        """Give all blocks back."""
        for start, count in self._mapped:
            _system.munmap(start, count)
        self._mapped.clear()


def run_guarded(executable: Executable, inputs: Sequence[Array], *, at_end: bool) -> list[Array]:
    """Run a program as `docs/execution_abi.md` says, all of its memory between guard pages."""
    program = executable.program
    info, record = program.info, program.record_address
    layout = info.sizes_layout
    dims = [(ctypes.c_int64 * max(1, value.ndim))(*value.shape) for value in inputs]
    sizes = (ctypes.c_int64 * info.num_sizes)()
    prepare = native_runtime().function(
        "ingot_prepare", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )
    assert prepare(record, _pointers(map(ctypes.addressof, dims)), sizes) == 0
    guarded = Guarded(at_end)
    given = [guarded.copy(value) for value in inputs]
    outputs = [guarded.take(sizes[layout.output_bytes(n)]) for n in range(len(info.outputs))]
    arena = guarded.take(sizes[ARENA_SLOT], ARENA_ALIGNMENT)
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 6)(PROGRAM.read(record, "run"))
    status = run(
        PROGRAM.read(record, "runtime"),
        _pointers(given),
        _pointers(outputs),
        arena,
        ctypes.addressof(sizes),
        PROGRAM.read(record, "constants"),
    )
    assert status == 0, info.run_errors[status - 1]
    found: list[Array] = []
    for number, (address, output) in enumerate(zip(outputs, info.outputs, strict=True)):
        start = layout.output_dims(number)
        shape = tuple(sizes[start : start + len(output.dims)])
        data = ctypes.string_at(address, sizes[layout.output_bytes(number)])
        storage = dtype(output.dtype).storage or np.dtype(np.bool_)
        found.append(np.frombuffer(data, storage).reshape(shape))
    guarded.close()
    return found


def _pointers(addresses: Any) -> Any:
    held = list(addresses)
    return (ctypes.c_void_p * max(1, len(held)))(*held)

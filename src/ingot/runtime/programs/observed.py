# SPDX-License-Identifier: Apache-2.0
"""Observed executions: every call of a program goes through a Python observer.

Native callers (PJRT, TensorFlow's kernels) and `program.call` find the machine code in the
program's record. `observe` replaces it by a function that copies the arguments, runs the code and
shows arguments and results to the observer. That costs copies and the GIL; only snapshots use it.

Invariant: exceptions of the observer go to the log `ingot`; the execution ends as without it.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ingot.artifact.abi import OutputInfo, ParamInfo
from ingot.runtime.arguments.convert import array_at
from ingot.runtime.programs.program import Program, storage_of
from ingot.runtime.records import PROGRAM

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Observer: TypeAlias = Callable[[list[Array]], Callable[[list[Array]], None]]
"""Called with the arguments before an execution; returns a function that gets the results."""

_Run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 6)
_log = logging.getLogger("ingot")


def observe(program: Program, observer: Observer) -> None:
    """Show each execution of `program` to `observer`, on the thread that executes.

    All sizes of the program must be static.
    """
    info, address = program.info, program.record_address
    code = _Run(PROGRAM.read(address, "run"))

    def run(runtime: int, inputs: int, outputs: int, *rest: int) -> int:
        end: Callable[[list[Array]], None] | None = None
        try:
            end = observer([array.copy() for array in _arrays(info.params, inputs)])
        except Exception:
            _log.exception("an execution cannot be shown")
        status: int = code(runtime, inputs, outputs, *rest)
        if status == 0 and end is not None:
            try:
                end(_arrays(info.outputs, outputs))
            except Exception:
                _log.exception("the results of an execution cannot be shown")
        return status

    program.run_through(_Run(run))


def _arrays(rows: Sequence[ParamInfo | OutputInfo], pointers: int | None) -> list[Array]:
    """Return arrays over the memory that a table of pointers points to."""
    if pointers is None or not rows:
        return []
    table = (ctypes.c_void_p * len(rows)).from_address(pointers)
    return [
        array_at(address or 0, _sizes(row), storage_of(row.dtype))
        for row, address in zip(rows, table, strict=True)
    ]


def _sizes(row: ParamInfo | OutputInfo) -> list[int]:
    sizes = [size for size in row.dims if size is not None]
    assert len(sizes) == len(row.dims), "all sizes are known"
    return sizes

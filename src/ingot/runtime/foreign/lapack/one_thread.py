# SPDX-License-Identifier: Apache-2.0
"""Small matrices in one thread: OpenBLAS's own threads are switched off around their calls.

OpenBLAS gives parts of its products to its threads from some thousand elements on, and waits for
them. That gains nothing for matrices this small, and where CPUs are busy it takes a thousand times
as long (a singular value decomposition of 80x80: 0.6 ms alone, 0.4 s beside four busy processes).

The number of threads is one for the process. Several threads may be inside of a call at a time: the
first one that comes notes the number and sets 1, the last one that leaves sets what was noted.

Invariant: when nobody is inside, the number is what it was. A thread that comes between another's
leaving and its setting finds 1 and notes nothing; then the number is the other's to set.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, PTR, VOID
from ingot.llvm.values import Value, symbol_text

_GET, _SET, _STATE = "blas_get_threads", "blas_set_threads", "blas_threads"
_PREFIXES = ("scipy_openblas", "openblas")
_INSIDE, _NOTED, _WORDS = range(3)
"""The words of the state: how many threads are inside, and the number to set; 0 for none."""


@cache
def thread_imports() -> Mapping[str, int]:
    """Return the addresses that the code here needs; none where SciPy's BLAS is not OpenBLAS."""
    module: Any = importlib.import_module("scipy.linalg.cython_lapack")
    library = ctypes.CDLL(module.__file__)
    for prefix in _PREFIXES:
        get = getattr(library, f"{prefix}_get_num_threads", None)
        put = getattr(library, f"{prefix}_set_num_threads", None)
        if get is not None and put is not None:
            state = (ctypes.c_int32 * _WORDS)()

            def leave_in_child(state: Any = state, put: Any = put) -> None:
                """The threads that were inside are not in the child."""
                if state[_INSIDE] and state[_NOTED]:
                    put(state[_NOTED])
                state[_INSIDE] = 0

            os.register_at_fork(after_in_child=leave_in_child)
            address = ctypes.addressof(state)
            return {_GET: _address(get), _SET: _address(put), _STATE: address}
    return {}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def declare_state(module: ModuleBuilder) -> None:
    """Declare the imports of the code emitted here."""
    module.global_text(_STATE, f"external global [{_WORDS} x i32]")


def _word(f: FunctionBuilder, number: int) -> Value:
    return f.gep(Value(PTR, symbol_text(_STATE)), number, I32)


def emit_enter(f: FunctionBuilder) -> None:
    """Emit that this thread is inside of a call that OpenBLAS is not to share out."""
    before = f.atomicrmw("add", _word(f, _INSIDE), f.const(I32, 1))

    def note() -> None:
        count = f.call(f.module.declare(_GET, I32, []), [])
        is_many = f.icmp("sgt", count, f.const(I32, 1))
        noted = f.select(is_many, count, f.const(I32, 0))
        f.atomic_store(noted, _word(f, _NOTED))
        f.if_(is_many, lambda: _emit_set(f, f.const(I32, 1)))

    f.if_(f.icmp("eq", before, f.const(I32, 0)), note)


def emit_leave(f: FunctionBuilder) -> None:
    """Emit that this thread leaves that call."""
    # Read first: whoever comes after this thread has left may note something else.
    noted = f.atomic_load(I32, _word(f, _NOTED))
    before = f.atomicrmw("sub", _word(f, _INSIDE), f.const(I32, 1))
    is_last = f.icmp("eq", before, f.const(I32, 1))
    sets = f.and_(is_last, f.icmp("sgt", noted, f.const(I32, 0)))
    f.if_(sets, lambda: _emit_set(f, noted))


def _emit_set(f: FunctionBuilder, count: Value) -> None:
    f.call(f.module.declare(_SET, VOID, [I32]), [count])

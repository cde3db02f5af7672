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
from ingot.llvm.types import PTR
from ingot.llvm.values import Value, symbol_text
from ingot.native.functions import external, inlined
from ingot.native.module import Translation
from ingot.native.pointers import Atomic, Struct
from ingot.native.types import i32

_GET, _SET, _STATE = "blas_get_threads", "blas_set_threads", "blas_threads"
_PREFIXES = ("scipy_openblas", "openblas")


class ThreadState(
    Struct,
    name="IngotBlasThreads",
    notes={"inside": "threads that are inside", "noted": "the number to set; 0: none"},
):
    """The state of all calls in this process."""

    inside: Atomic[i32]
    noted: Atomic[i32]


@external(_GET)
def get_threads() -> i32:
    """Return the number of threads that OpenBLAS uses."""
    ...


@external(_SET)
def set_threads(count: i32) -> None:
    """Set that number."""
    ...


@inlined
def enter(state: ThreadState) -> None:
    """Begin a call that OpenBLAS is not to share out."""
    if state.inside.fetch_add(1) == 0:
        count = get_threads()
        if count > 1:
            state.noted.store(count)
            set_threads(1)
        else:
            state.noted.store(0)


@inlined
def leave(state: ThreadState) -> None:
    """End such a call."""
    # Read first: whoever comes after this thread has left may note something else.
    noted = state.noted.load()
    if state.inside.fetch_sub(1) == 1 and noted > 0:
        set_threads(noted)


@cache
def thread_imports() -> Mapping[str, int]:
    """Return the addresses that the code here needs; none where SciPy's BLAS is not OpenBLAS."""
    module: Any = importlib.import_module("scipy.linalg.cython_lapack")
    library = ctypes.CDLL(module.__file__)
    for prefix in _PREFIXES:
        get = getattr(library, f"{prefix}_get_num_threads", None)
        put = getattr(library, f"{prefix}_set_num_threads", None)
        if get is not None and put is not None:
            state = ThreadState.c_layout.structure()

            def leave_in_child(state: Any = state, put: Any = put) -> None:
                """The threads that were inside are not in the child."""
                if state.inside and state.noted:
                    put(state.noted)
                state.inside = 0

            os.register_at_fork(after_in_child=leave_in_child)
            address = ctypes.addressof(state)
            return {_GET: _address(get), _SET: _address(put), _STATE: address}
    return {}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def add_functions(module: ModuleBuilder) -> None:
    """Add `enter` and `leave`, and declare what they import."""
    module.global_text(_STATE, f"external global [{ThreadState.c_layout.size} x i8], align 4")
    Translation(module).add(enter, leave)


def emit_enter(f: FunctionBuilder) -> None:
    """Emit the call of `enter`."""
    _emit_call(f, "one_thread.enter")


def emit_leave(f: FunctionBuilder) -> None:
    """Emit the call of `leave`."""
    _emit_call(f, "one_thread.leave")


def _emit_call(f: FunctionBuilder, name: str) -> None:
    f.call(f.owner.defined(name).reference, [Value(PTR, symbol_text(_STATE))])

# SPDX-License-Identifier: Apache-2.0
"""Trampolines: slots whose body is a Python function, safe at any time and on any thread.

Each is a few machine instructions that take the GIL, set a pending exception aside (hosts destroy
objects from a `dealloc` that runs while one is raised), call the function with the address of the
arguments, and put the exception back. Invariant: once the interpreter is gone, a trampoline does
nothing and returns null, because destructors of the host may run after it.

While the interpreter ends, CPython ends every thread that asks for the GIL, whatever frames it has.
So functions that a host's threads may call at that time (destructors) are guarded by a gate: once
it is closed they do nothing, and closing it waits for the calls that are in progress. If a thread
of jaxlib's pool were ended there, the pool's destructor would wait for it forever.

The addresses of the Python functions are in the module's table `targets`, filled after linking, so
that the code is the same in every process and comes from the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ingot.llvm.linking import Library
from ingot.native.functions import exported, native
from ingot.native.module import Translation
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import static_array, static_word
from ingot.native.types import i64
from ingot.runtime.python.c_python import (
    Cell,
    call_with,
    decref,
    fetch_error,
    give_gil,
    integer_of,
    is_initialized,
    pointer_of,
    restore_error,
    save_thread,
    take_gil,
    write_unraisable,
)

Target = Callable[[int], int]
"""The function that a trampoline calls: takes the address of the arguments, returns an address."""

_immortal: list[object] = []
"""The functions that trampolines call, which are never freed."""


INSIDE = static_word(i64, "gate.inside")
CLOSED = static_word(i64, "gate.closed")


@exported("ingot_pjrt_close_gate")
def close_gate() -> i64:
    """Close the gate; return the number of calls in progress.

    Either this sees a call that is in progress, or the call sees that the gate is closed.
    """
    CLOSED.store(1, "seq_cst")
    return INSIDE.load("seq_cst")


@exported("ingot_pjrt_open_gate")
def open_gate() -> None:
    """Open the gate; no call may be in progress."""
    INSIDE.store(0)
    CLOSED.store(0)


@native
def call_python(function: Pointer, arguments: Pointer | None) -> Pointer | None:
    """Call a Python function with an address; return the address that it returns."""
    if unlikely(is_initialized() == 0):
        return None
    kind = Cell.on_stack(1)
    value = Cell.on_stack(1)
    traceback = Cell.on_stack(1)
    state = take_gil()
    fetch_error(kind, value, traceback)
    argument = integer_of(arguments)
    result = call_with(function, argument)
    decref(argument)
    address: Pointer | None = None
    if result is None:
        write_unraisable(function)
    else:
        address = pointer_of(result)
        decref(result)
    restore_error(kind[0], value[0], traceback[0])
    give_gil(state)
    return address


@native
def call_gated(function: Pointer, arguments: Pointer | None) -> Pointer | None:
    """Call a Python function unless the gate is closed."""
    INSIDE.fetch_add(1, "seq_cst")
    result: Pointer | None = None
    if CLOSED.load("seq_cst") == 0:
        result = call_python(function, arguments)
    INSIDE.fetch_sub(1, "seq_cst")
    return result


@native
def enter_thread() -> None:
    """Make this thread known to Python for as long as it lives.

    Without it every call into Python would see new thread-local variables, among them the one with
    the reason why a foreign call failed.
    """
    if is_initialized() != 0:
        take_gil()
        save_thread()


def add_trampolines(
    translation: Translation, names: Sequence[str], gated: Collection[str] = ()
) -> None:
    """Add one function `ptr (ptr arguments)` for each name, `ingot_pjrt_targets` and the gate.

    `gated` are the names of those that the gate guards.
    """
    targets: Array[Pointer] = static_array(
        Pointer, "targets", [0] * max(1, len(names)), is_constant=False
    )

    @exported("ingot_pjrt_targets")
    def targets_address() -> Array[Pointer]:
        return targets

    translation.add(targets_address, close_gate, open_gate)
    for index, name in enumerate(names):
        call = call_gated if name in gated else call_python
        translation.add(_trampoline(name, targets, index, call))


def _trampoline(
    name: str,
    targets: Array[Pointer],
    index: int,
    call: Callable[[Pointer, Pointer | None], Pointer | None],
) -> Callable[..., Any]:
    @exported(name)
    def run(arguments: Pointer | None) -> Pointer | None:
        return call(targets[index], arguments)

    return run


def fill_targets(library: Library, names: Sequence[str], targets: Mapping[str, Target]) -> None:
    """Store the functions that the trampolines of a linked module call."""
    address = int(library.function("ingot_pjrt_targets", ctypes.c_void_p)())
    table = (ctypes.c_void_p * len(names)).from_address(address)
    for index, name in enumerate(names):
        target = targets[name]
        _immortal.append(target)
        # A reference that is never dropped: the interpreter's end must not free the function.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(target))
        table[index] = id(target)

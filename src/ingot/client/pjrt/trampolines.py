# SPDX-License-Identifier: Apache-2.0
"""Trampolines: slots whose body is a Python function, safe at any time and on any thread.

Each is a few machine instructions that take the GIL, set a pending exception aside (hosts destroy
objects from a `dealloc` that runs while one is raised), call the function with the address of the
arguments, and put the exception back. Invariant: once the interpreter is gone, a trampoline does
nothing and returns null, because destructors of the host may run after it.

While the interpreter ends, CPython ends every thread that asks for the GIL, whatever frames it has.
So functions that a host's threads may call when nobody waits for them (destructors) stand behind a
gate: once it is closed they do nothing, and who closes it waits for those that are inside. A thread
of jaxlib's pool that was ended there would be waited for, forever, by the pool's destructor.

The functions are named by the module's table `targets`, filled after linking, so that the code is
the same in every process and comes from the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence

from ingot.client.pjrt.emit import is_null
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.linking import Library
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero

PYTHON_IMPORTS: dict[str, tuple[Type, list[Type]]] = {
    "Py_IsInitialized": (I32, []),
    "PyGILState_Ensure": (I32, []),
    "PyGILState_Release": (VOID, [I32]),
    "PyEval_SaveThread": (PTR, []),
    "PyErr_Fetch": (VOID, [PTR, PTR, PTR]),
    "PyErr_Restore": (VOID, [PTR, PTR, PTR]),
    "PyErr_WriteUnraisable": (VOID, [PTR]),
    "PyLong_FromVoidPtr": (PTR, [PTR]),
    "PyLong_AsVoidPtr": (PTR, [PTR]),
    "PyObject_CallOneArg": (PTR, [PTR, PTR]),
    "Py_DecRef": (VOID, [PTR]),
}

Target = Callable[[int], int]
"""What a trampoline calls: takes the address of the arguments, returns an address."""

_immortal: list[object] = []
"""What trampolines call, for the rest of the process and after it."""


def python_addresses() -> dict[str, int]:
    """Return the addresses of CPython's functions."""
    found = {name: getattr(ctypes.pythonapi, name) for name in PYTHON_IMPORTS}
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()
    }


def emit_trampolines(
    module: ModuleBuilder, names: Sequence[str], gated: Collection[str] = ()
) -> dict[str, FunctionRef]:
    """Add one function `ptr (ptr arguments)` for each name, `ingot_pjrt_targets` and the gate.

    `gated` are the names that stand behind the gate.
    """
    table = module.global_text(
        "targets", f"internal global [{max(1, len(names))} x ptr] zeroinitializer, align 64"
    )
    getter = module.function("ingot_pjrt_targets", PTR, [])
    getter.ret(table)
    call = _emit_call(module)
    call_gated = _emit_gate(module, call)
    functions: dict[str, FunctionRef] = {}
    for index, name in enumerate(names):
        f = module.function(name, PTR, [("arguments", PTR)])
        target = f.load(PTR, f.gep(table, index, PTR))
        f.ret(f.call(call_gated if name in gated else call, [target, f.params[0]]))
        functions[name] = f.reference
    return functions


def fill_targets(library: Library, names: Sequence[str], targets: Mapping[str, Target]) -> None:
    """Tell the trampolines of a linked module what to call."""
    address = int(library.function("ingot_pjrt_targets", ctypes.c_void_p)())
    table = (ctypes.c_void_p * len(names)).from_address(address)
    for index, name in enumerate(names):
        target = targets[name]
        _immortal.append(target)
        # A reference that is never given back: the interpreter's end must not free it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(target))
        table[index] = id(target)


def emit_enter_thread(module: ModuleBuilder) -> FunctionRef:
    """`void ()`: make this thread known to Python for as long as it lives.

    Without it every call into Python would see new thread-local variables, among them the one with
    the reason why a foreign call failed.
    """
    f = module.function("ingot_pjrt_enter_thread", VOID, [], linkage="internal")
    gone = f.icmp("eq", _python(f, "Py_IsInitialized"), f.const(I32, 0))
    f.if_(gone, f.ret)
    _python(f, "PyGILState_Ensure")
    _python(f, "PyEval_SaveThread")
    f.ret()
    return f.reference


def _python(f: FunctionBuilder, name: str, *args: Value) -> Value:
    """Call a function of CPython."""
    result, types = PYTHON_IMPORTS[name]
    return f.call(f.module.declare(name, result, types), list(args))


def _emit_gate(module: ModuleBuilder, call: FunctionRef) -> FunctionRef:
    """`ptr (ptr function, ptr arguments)`: call a Python function unless the gate is closed.

    Also `i64 ingot_pjrt_close_gate()`, which gives how many calls are inside (either who closes
    sees a call that is inside, or the call sees that the gate is closed), and
    `void ingot_pjrt_open_gate()`, for when nobody is.
    """
    inside = module.global_text("gate.inside", "internal global i64 0, align 64")
    closed = module.global_text("gate.closed", "internal global i64 0, align 8")
    close = module.function("ingot_pjrt_close_gate", I64, [])
    close.atomic_store(close.const(I64, 1), closed, "seq_cst")
    close.ret(close.atomic_load(I64, inside, "seq_cst"))
    reset = module.function("ingot_pjrt_open_gate", VOID, [])
    for place in (inside, closed):
        reset.atomic_store(reset.const(I64, 0), place)
    reset.ret()
    params = [("function", PTR), ("arguments", PTR)]
    f = module.function("ingot_pjrt_call_gated", PTR, params, linkage="internal")
    one = f.const(I64, 1)
    f.atomicrmw("add", inside, one, "seq_cst")
    is_open = f.icmp("eq", f.atomic_load(I64, closed, "seq_cst"), f.const(I64, 0))
    (value,) = f.if_(is_open, lambda: [f.call(call, f.params)], otherwise=[zero(PTR)])
    f.atomicrmw("sub", inside, one, "seq_cst")
    f.ret(value)
    return f.reference


def _emit_call(module: ModuleBuilder) -> FunctionRef:
    """`ptr (ptr function, ptr arguments)`: call a Python function."""
    params = [("function", PTR), ("arguments", PTR)]
    f = module.function("ingot_pjrt_call_python", PTR, params, linkage="internal")
    function, arguments = f.params

    def python(name: str, *args: Value) -> Value:
        return _python(f, name, *args)

    gone = f.icmp("eq", python("Py_IsInitialized"), f.const(I32, 0))
    f.if_(gone, lambda: f.ret(zero(PTR)), likely=False)
    pending = [f.alloca(PTR) for _ in range(3)]
    state = python("PyGILState_Ensure")
    python("PyErr_Fetch", *pending)
    number = python("PyLong_FromVoidPtr", arguments)
    result = python("PyObject_CallOneArg", function, number)
    python("Py_DecRef", number)

    def failed() -> list[Value]:
        python("PyErr_WriteUnraisable", function)
        return [zero(PTR)]

    def address() -> list[Value]:
        value = python("PyLong_AsVoidPtr", result)
        python("Py_DecRef", result)
        return [value]

    (value,) = f.if_(is_null(f, result), failed, address)
    python("PyErr_Restore", *[f.load(PTR, slot) for slot in pending])
    python("PyGILState_Release", state)
    f.ret(value)
    return f.reference

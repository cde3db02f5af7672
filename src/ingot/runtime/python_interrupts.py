"""Signals of Python during an execution: the emitted check, and the raise after it.

Python runs signal handlers on its main thread, between instructions of the interpreter. While that
thread executes a program, `ingot_poll` lets the handlers run. What one raises (`KeyboardInterrupt`)
ends the execution; it is kept in the `PYTHON` record until `raise_interrupt` raises it in the
user's program.

Invariant: while an exception is kept, every execution of the main thread ends at its next poll.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import Value, zero
from ingot.runtime.python_arrays import call_python
from ingot.runtime.records import PYTHON


def emit_python_check(module: ModuleBuilder, python: Value) -> None:
    """`i32 ingot_python_check(runtime)`: 1 if a signal handler raised an exception."""
    f = module.function("ingot_python_check", I32, [("runtime", PTR)])
    this = f.call(module.declare("pthread_self", I64, []), [])
    elsewhere = f.icmp("ne", this, PYTHON.load(f, python, "main_thread"))
    f.if_(elsewhere, lambda: f.ret(f.const(I32, 0)))
    kept = PYTHON.address(f, python, "interrupt")
    again = f.icmp("ne", f.load(PTR, kept), zero(PTR))
    f.if_(again, lambda: f.ret(f.const(I32, 1)))
    state = call_python(f, python, "ensure_gil", I32, [])
    raised = f.icmp("slt", call_python(f, python, "check_signals", I32, []), f.const(I32, 0))

    def fetch() -> None:
        call_python(f, python, "fetch_error", VOID, [kept, f.gep(kept, 8), f.gep(kept, 16)])

    f.if_(raised, fetch)
    call_python(f, python, "release_gil", VOID, [state])
    f.ret(f.zext(raised, I32))


def raise_interrupt(record: int) -> None:
    """Raise what a signal handler raised during an execution of this thread, if one did.

    `record` is the address of the `PYTHON` record.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    row: Any = PYTHON.structure.from_address(record)
    kept = [ctypes.c_void_p(address) for address in row.interrupt]
    ctypes.memset(record + PYTHON.offset("interrupt"), 0, 3 * ctypes.sizeof(ctypes.c_void_p))
    if kept[0]:
        # `pythonapi` looks for an exception after each call, and raises this one.
        ctypes.pythonapi.PyErr_Restore(*kept)

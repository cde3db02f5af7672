# SPDX-License-Identifier: Apache-2.0
"""Signals of Python during an execution: emitted checks, and the raise after them.

Python runs signal handlers on its main thread, between instructions of the interpreter.

* While that thread executes a program that Python called, `ingot_poll` lets the handlers run. What
  one raises (`KeyboardInterrupt`) ends the execution; it is kept in the `PYTHON` record until
  `raise_interrupt` raises it in the user's program.
* While it waits in a framework for an execution, on whatever thread, no handler can run. So a
  handler of SIGINT before Python's own counts, and the main thread is asked to answer (a pending
  call). If it does not within some ticks, it waits in native code: then executions that began
  before the signal end, unless the user has a handler of his own. The framework returns, and Python
  raises `KeyboardInterrupt`. If it does, they have a second: JAX raises `KeyboardInterrupt` and
  leaves the execution that it waited for, which would hold up the device for good if endless.

Invariants: while an exception is kept, every execution of the main thread ends at its next poll.
Python's own handler is always called, and nothing here decides what it does.
Source: sigaction(2); CPython's Modules/signalmodule.c, Python/ceval_gil.h.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.python_arrays import call_python
from ingot.runtime.records import INTERRUPTS, PYTHON
from ingot.runtime.sync import discard

_ACTION_BYTES = 152
"""glibc's `struct sigaction` on 64-bit Linux; the handler is its first field."""

_ANSWER_TICKS = 3
"""Ticks in which a main thread that runs Python answers."""

_GRACE_TICKS = 20
"""Ticks after which executions end whose main thread does something else meanwhile."""


def emit_python_interrupts(
    module: ModuleBuilder, python: Value, state: Value, attention: Value
) -> None:
    """Add `ingot_python_check` and `ingot_python_tick`.

    `state` is an INTERRUPTS record, `attention` the address of the counter that executions watch.
    """
    _emit_check(module, python, state)
    _emit_tick(module, python, state, _emit_handler(module, state, attention))


def emit_execute_python(module: ModuleBuilder, python: Value, execute: FunctionRef) -> FunctionRef:
    """`i32 (ptr program, ptr runtime, ptr inputs, ptr outputs, ptr sizes)`: called by Python."""
    names = ("program", "runtime", "inputs", "outputs", "sizes")
    f = module.function("ingot_execute_python", I32, [(name, PTR) for name in names])
    step = f.zext(_is_main(f, python), I64)
    _add(f, python, step)
    status = f.call(execute, list(f.params))
    _add(f, python, f.neg(step))
    f.ret(status)
    return f.reference


def _add(f: FunctionBuilder, python: Value, amount: Value) -> None:
    """Count calls of the main thread; other threads add 0, which must not undo what it adds."""
    some = f.icmp("ne", amount, f.const(I64, 0))

    def count() -> None:
        total = f.add(PYTHON.load(f, python, "main_calls"), amount)
        PYTHON.store(f, python, "main_calls", total)

    f.if_(some, count)


def _is_main(f: FunctionBuilder, python: Value) -> Value:
    this = f.call(f.module.declare("pthread_self", I64, []), [])
    return f.icmp("eq", this, PYTHON.load(f, python, "main_thread"))


def _emit_check(module: ModuleBuilder, python: Value, state: Value) -> None:
    """`i32 ingot_python_check(first)`: 1 if an execution that began then is to end."""
    f = module.function("ingot_python_check", I32, [("first", I64)])
    calls = PYTHON.load(f, python, "main_calls")
    called = f.and_(_is_main(f, python), f.icmp("sgt", calls, f.const(I64, 0)))
    f.if_(called, lambda: _emit_check_signals(f, python))
    ended = f.atomic_load(I64, INTERRUPTS.address(f, state, "ended"))
    f.ret(f.zext(f.icmp("slt", f.params[0], ended), I32))


def _emit_check_signals(f: FunctionBuilder, python: Value) -> None:
    """Return whether a signal handler raised an exception."""
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


def _emit_handler(module: ModuleBuilder, state: Value, attention: Value) -> FunctionRef:
    """`void (i32 signal, ptr info, ptr context)`: count, then do what was done before."""
    params = [("signal", I32), ("info", PTR), ("context", PTR)]
    f = module.function("ingot_on_interrupt", VOID, params, linkage="internal")
    one = f.const(I64, 1)
    before = f.atomicrmw("add", attention, one, "seq_cst")
    f.atomic_store(f.add(before, one), INTERRUPTS.address(f, state, "last"))
    f.atomicrmw("add", INTERRUPTS.address(f, state, "count"), one, "seq_cst")
    previous = f.atomic_load(PTR, INTERRUPTS.address(f, state, "previous"))
    f.call_indirect(previous, VOID, [I32, PTR, PTR], list(f.params))
    f.ret()
    return f.reference


def _emit_tick(module: ModuleBuilder, python: Value, state: Value, handler: FunctionRef) -> None:
    """`void ingot_python_tick()`: keep the handler there, see what becomes of Ctrl-C."""
    answer = _emit_answer(module, state)
    f = module.function("ingot_python_tick", VOID, [])
    _emit_install(f, state, handler)
    count = f.atomic_load(I64, INTERRUPTS.address(f, state, "count"))

    def ask() -> None:
        INTERRUPTS.store(f, state, "asked", count)
        INTERRUPTS.store(f, state, "waited", f.const(I64, 0))
        call = [Value(PTR, answer.text), zero(PTR)]
        call_python(f, python, "add_pending_call", I32, call)
        f.ret()

    f.if_(f.icmp("ne", count, INTERRUPTS.load(f, state, "asked")), ask)
    waited = f.add(INTERRUPTS.load(f, state, "waited"), f.const(I64, 1))
    INTERRUPTS.store(f, state, "waited", waited)
    answered = f.atomic_load(I64, INTERRUPTS.address(f, state, "answered"))
    is_answered = f.icmp("eq", count, answered)
    patience = f.select(is_answered, f.const(I64, _GRACE_TICKS), f.const(I64, _ANSWER_TICKS))
    # Asked with the count 0 at first: no Ctrl-C yet.
    none = f.icmp("eq", count, f.const(I64, 0))
    early = f.icmp("slt", waited, patience)
    done = f.icmp("sge", INTERRUPTS.load(f, state, "settled"), count)
    f.if_(f.or_(f.or_(none, early), done), f.ret, likely=True)
    INTERRUPTS.store(f, state, "settled", count)
    gil = call_python(f, python, "ensure_gil", I32, [])
    function = PYTHON.load(f, python, "ends_by_interrupt")
    arguments = [function, zero(PTR), f.const(I64, 0), zero(PTR)]
    result = call_python(f, python, "vectorcall", PTR, arguments)
    ends = f.icmp("eq", result, PYTHON.load(f, python, "true"))
    ended = INTERRUPTS.address(f, state, "ended")
    last = f.atomic_load(I64, INTERRUPTS.address(f, state, "last"))
    f.if_(ends, lambda: f.atomic_store(last, ended))
    call_python(f, python, "dec_ref", VOID, [result])
    call_python(f, python, "release_gil", VOID, [gil])
    f.ret()


def _emit_answer(module: ModuleBuilder, state: Value) -> FunctionRef:
    """`i32 (ptr)`: the main thread runs Python, so it has seen every Ctrl-C."""
    f = module.function("ingot_answer", I32, [("unused", PTR)], linkage="internal")
    count = f.atomic_load(I64, INTERRUPTS.address(f, state, "count"))
    f.atomic_store(count, INTERRUPTS.address(f, state, "answered"))
    f.ret(f.const(I32, 0))
    return f.reference


def _emit_install(f: FunctionBuilder, state: Value, handler: FunctionRef) -> None:
    """Put our handler before the one of SIGINT that is there, unless it is the system's own."""
    sigaction = f.module.declare("sigaction", I32, [I32, PTR, PTR])
    action = f.alloca(I64, _ACTION_BYTES // 8)
    number = f.const(I32, int(signal.SIGINT))
    f.call(sigaction, [number, zero(PTR), action])
    present = f.load(PTR, action)
    ours = Value(PTR, handler.text)
    own = f.icmp("ule", f.ptrtoint(present), f.const(I64, 1))  # SIG_DFL, SIG_IGN
    settled = f.or_(own, f.icmp("eq", present, ours))
    is_new = f.xor(settled, f.as_condition(True))

    def install() -> None:
        f.atomic_store(present, INTERRUPTS.address(f, state, "previous"))
        f.store(ours, action)
        discard(f.call(sigaction, [number, action, zero(PTR)]))

    f.if_(is_new, install)


def ends_by_interrupt() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt: the user has no handler of his own."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


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

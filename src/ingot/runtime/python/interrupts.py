# SPDX-License-Identifier: Apache-2.0
"""Signals of Python during an execution: native checks, and the raise after them.

Python runs signal handlers on its main thread, between instructions of the interpreter.

* While that thread executes a program that Python called, `ingot_poll` lets the handlers run. What
  one raises (`KeyboardInterrupt`) ends the execution; it is kept in the `PYTHON` record until
  `raise_interrupt` raises it in the user's program.
* While it waits in a framework for an execution, on whatever thread, no handler can run. So a
  handler in front of Python's own counts SIGINTs and asks the main thread to answer (a pending
  call). If it does not answer within some ticks, it waits in native code: then executions that
  began before the signal end, unless the user has set a handler. The framework returns, and Python
  raises `KeyboardInterrupt`. If it does answer, executions get one more second: JAX raises
  `KeyboardInterrupt` and abandons the execution that it waited for, which would block the device
  for good if it is endless.

Invariants: while an exception is kept, every execution of the main thread ends at its next poll.
Python's own handler is always called, and its effect is unchanged.
Source: sigaction(2); CPython's Modules/signalmodule.c, Python/ceval_gil.h.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

from ingot.native.functions import exported, inlined, native
from ingot.native.operations import likely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.c_library import SIGINT, SignalAction, pthread_self, sigaction
from ingot.runtime.executor.execute import execute_watched
from ingot.runtime.python.objects import CPYTHON, INTERRUPTS, PYTHON
from ingot.runtime.records import Buffers, Program, Runtime
from ingot.runtime.threading.interrupts import STATE as WATCH

_ANSWER_TICKS = 3
"""Ticks in which a main thread that runs Python answers."""

_GRACE_TICKS = 20
"""Ticks after which executions end although the main thread answers."""


@inlined
def is_main() -> bool:
    """Return whether this thread runs signal handlers."""
    return pthread_self() == CPYTHON.main_thread


@exported("ingot_execute_python")
def execute_python(
    program: Program, runtime: Runtime, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Run as `execute_watched`, for Python, whose signal handlers may end it."""
    if not is_main():
        return execute_watched(program, runtime, inputs, outputs, sizes)
    CPYTHON.main_calls += 1
    status = execute_watched(program, runtime, inputs, outputs, sizes)
    CPYTHON.main_calls -= 1
    return status


@inlined
def is_raised() -> bool:
    """Run signal handlers; return whether one raised an exception, now or before."""
    raised = CPYTHON.interrupt
    if raised[0] is not None:
        return True
    gil = CPYTHON.ensure_gil()
    has_raised = CPYTHON.check_signals() < 0
    if has_raised:
        CPYTHON.fetch_error(raised, raised + 8, raised + 16)
    CPYTHON.release_gil(gil)
    return has_raised


@exported("ingot_python_check")
def check(first: i64) -> i32:
    """Return 1 if an execution that began with the counter `first` must end, else 0."""
    if is_main() and CPYTHON.main_calls > 0:
        return i32(is_raised())
    return i32(first < INTERRUPTS.ended.load())


@native
def on_interrupt(number: i32, info: Pointer | None, context: Pointer | None) -> None:
    """Handle SIGINT: count it, then call the previous handler."""
    before = WATCH.attention.fetch_add(1, "seq_cst")
    INTERRUPTS.last.store(before + 1)
    INTERRUPTS.count.fetch_add(1, "seq_cst")
    previous = INTERRUPTS.previous.load()
    previous(number, info, context)


@native
def answer(unused: Pointer | None) -> i32:
    """Record that the main thread runs Python, so it has seen every Ctrl-C."""
    INTERRUPTS.answered.store(INTERRUPTS.count.load())
    return 0


@inlined
def install_handler() -> None:
    """Put our handler in front of the present one of SIGINT, unless that is the system's own."""
    action = SignalAction.on_stack()
    sigaction(SIGINT, None, action)
    present = action.handler
    is_function = Array[i64].at(action)[0] > 1  # else SIG_DFL or SIG_IGN
    if present is not None and is_function and present != on_interrupt:
        INTERRUPTS.previous.store(present)
        action.handler = on_interrupt
        sigaction(SIGINT, action, None)


@inlined
def settle(count: i64) -> None:
    """End executions that began before the last Ctrl-C, unless the user handles it."""
    INTERRUPTS.settled = count
    gil = CPYTHON.ensure_gil()
    result = CPYTHON.vectorcall(CPYTHON.ends_by_interrupt, None, 0, None)
    if result == CPYTHON.true:
        INTERRUPTS.ended.store(INTERRUPTS.last.load())
    CPYTHON.dec_ref(result)
    CPYTHON.release_gil(gil)


@exported("ingot_python_tick")
def tick() -> None:
    """Reinstall the handler if it was replaced; decide what an unanswered Ctrl-C ends."""
    install_handler()
    count = INTERRUPTS.count.load()
    if count != INTERRUPTS.asked:
        INTERRUPTS.asked = count
        INTERRUPTS.waited = 0
        CPYTHON.add_pending_call(answer, None)
        return
    INTERRUPTS.waited += 1
    is_answered = count == INTERRUPTS.answered.load()
    patience = i64(_GRACE_TICKS) if is_answered else _ANSWER_TICKS
    # Asked with the count 0 at first: no Ctrl-C yet.
    if likely(count == 0 or INTERRUPTS.waited < patience or INTERRUPTS.settled >= count):
        return
    settle(count)


def ends_by_interrupt() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt: the user has no handler of his own."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def raise_interrupt(record: int) -> None:
    """Raise the exception of a signal handler that ran during an execution of this thread, if any.

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

# SPDX-License-Identifier: Apache-2.0
"""How a thread's CPU computes with floats: rounding to nearest even, denormals kept, no traps.

Programs run in these modes, whatever their caller has set: TensorFlow's threads, and every process
that loads a library that was linked with `-ffast-math`, take denormals for zero. Threads of the
pool would not, so that results would depend on the number of threads. The caller's modes come back
when an execution ends.

Invariant: on CPUs other than x86-64 the modes stay as they are.
Source: Intel, "Software Developer's Manual", volume 1, section 10.2.3 (MXCSR).
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I32, VOID
from ingot.llvm.values import Value
from ingot.native.functions import emitted, inlined
from ingot.native.operations import unlikely
from ingot.native.types import i32

MODES, PLAIN = 0xFFC0, 0x1F80
"""The bits of MXCSR that are modes (others are flags of what has happened), and those of a new
process."""


def _emit_modes(f: FunctionBuilder) -> Value:
    if f.module.architecture != "x86":
        return f.const(I32, PLAIN)
    word = f.alloca(I32)
    f.intrinsic("llvm.x86.sse.stmxcsr", VOID, [word])
    return f.load(I32, word)


def _emit_set_modes(f: FunctionBuilder, modes: Value) -> None:
    if f.module.architecture == "x86":
        word = f.alloca(I32)
        f.store(modes, word)
        f.intrinsic("llvm.x86.sse.ldmxcsr", VOID, [word])


@emitted(_emit_modes)
def float_modes() -> i32:
    """Return the thread's modes and flags. Plain Python has no others than a new process."""
    return PLAIN


@emitted(_emit_set_modes)
def set_float_modes(modes: i32) -> None:
    """Set them."""


@inlined
def begin_plain() -> i32:
    """Set the modes of a new process; return those that were set, for `end_plain`."""
    modes = float_modes()
    if unlikely(modes & MODES != PLAIN):
        set_float_modes(PLAIN)
    return modes


@inlined
def end_plain(modes: i32) -> None:
    """Set modes that `begin_plain` has returned."""
    if unlikely(modes & MODES != PLAIN):
        set_float_modes(modes)

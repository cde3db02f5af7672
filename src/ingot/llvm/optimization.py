# SPDX-License-Identifier: Apache-2.0
"""How LLVM compiles each kind of code: one table, with the reason for each row.

Who plans code names a row of it: `cpu.strategies.plans` for kernels (`CodePlan.how`), templates of
the library (`cpu.emit.template`), the host program, loops in registers. `jit` carries it out.
"""

from __future__ import annotations

from ingot.support.records import record


@record
class Optimization:
    """What LLVM does with a module: passes (names of `jit.PASSES`), then code generation."""

    level: int = 2
    passes: tuple[str, ...] = ()


PLAIN = Optimization()
"""No passes over code without calls or stack slots to remove, as that of kernels: what folds is
folded while it is built. LLVM's short list made kernels no faster, their compilation 10 % longer;
the instruction combiner made maxima with indices take half as long again, `asin` a third."""

SIMPLE = Optimization(0)
"""Kernels that gain nothing from optimization: those that wait for memory, and many ops on few
values (`kernel.schedule.loop_schedule.Effort`)."""

SHORT = Optimization(2, ("inline", "sroa", "instcombine", "simplifycfg"))
"""Enough for code that is written with helper functions: 0.25 ms where O3 takes 1.9."""

REGISTER_LOOPS = Optimization(1, ("sroa", "instcombine"))
"""Level 1 keeps values in registers; 2 makes nothing faster. Where all is in registers, value
numbering finds nothing more (it takes 0.3 ms), and branches merged into selections (simplifycfg)
make a loop with a condition slower."""

HOST_PROGRAM = Optimization(0)
"""Fast code generation, 0.3 ms instead of 2.5: the host program only computes addresses and calls.

Loops of small kernels alone are functions of their own (`cpu.register_loops`). In the other loops
the level does not matter: 20,000 iterations of a small product take as long as at a higher level,
and compilation three quarters of the time.
"""

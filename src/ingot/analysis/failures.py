# SPDX-License-Identifier: Apache-2.0
"""Failures: instructions that may end an execution early, and the parameters kept until then.

A failing assertion or foreign call ends the execution, and so do sizes with which a loop, branch or
called function cannot run. What was written into a donated parameter stays there. Where the
parameter must survive (`Alias.survives_failure`: a TensorFlow variable), nothing may be written
into it before the last point of failure: liveness keeps it intact until then, and the scheduler
puts instructions that may fail before those that write into it.

Invariant: an instruction that cannot fail ends an execution only if the execution is cancelled.
"""

from __future__ import annotations

from ingot.analysis.size_demands import size_demands
from ingot.hlo.computation import Computation, reaches
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Alias, Module
from ingot.semantics.foreign_calls import DONE


def surviving_aliases(module: Module) -> list[Alias]:
    """Return the aliases whose parameters must be unchanged if the execution fails."""
    return [alias for alias in module.aliases if alias.survives_failure]


def may_fail(instruction: Instruction, known: dict[Computation, bool]) -> bool:
    """Whether the instruction, or anything that it calls, may end the execution.

    `known` holds the computations that this is known of, and gets those that are looked at.
    """
    return reaches(instruction, _may_fail_itself, known)


def ends_early(module: Module) -> bool:
    """Whether an execution of the module may end before it is done."""
    known: dict[Computation, bool] = {}
    fails = any(may_fail(instruction, known) for instruction in module.entry.calls_and_effects)
    return fails or bool(may_fail_to_start(module))


def may_fail_to_start(module: Module) -> set[Computation]:
    """Return the computations of loops, branches and calls that some sizes make fail."""
    return size_demands(module).keys() - {module.entry}


def _may_fail_itself(instruction: Instruction) -> bool:
    is_called = instruction.opcode == "custom-call" or instruction.opcode == DONE
    return is_called or instruction.has(Trait.COLLECTIVE)

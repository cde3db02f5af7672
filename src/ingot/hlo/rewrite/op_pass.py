# SPDX-License-Identifier: Apache-2.0
"""Bases of the passes that visit the ops of some opcodes, one by one.

`OpPass` visits them and may do anything; an expander replaces each by a value. Such a pass is a
function (`op_pass`, `expander`), or a class if it has options (`OpPass`, `Expander`). All walk a
module in one order: callees before callers, operands before users.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext, named_pass
from ingot.support.records import record

Result = TypeVar("Result")


@record
class OpPass(Pass):
    """Visits every reachable instruction whose opcode is among `concerns`."""

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit the ops of every reachable computation; those of one are listed beforehand."""
        changed = False
        assert self.concerns is not None, "the pass names the opcodes that it visits"
        for op in module.find(*self.concerns):
            if op.parent is not None:
                changed = self.visit(op, module, context) or changed
        return changed

    @abstractmethod
    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Rewrite an op, which may be removed; return whether anything changed."""


@record
class Expander(OpPass):
    """Replaces every instruction whose opcode is among `concerns` by the result of `expand`.

    Invariant: `expand` adds instructions to the computation of `op` and returns a value of the same
    shape; it does not remove `op`. The control predecessors of `op` run before all of them, and its
    control successors run after the value.
    """

    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Replace an op, unless it stays."""
        computation = op.computation
        made = in_order(op, lambda: self.expand(op, Builder(computation, op.metadata), module))
        if made is op:
            return False
        computation.transfer_control_deps(op, made)
        computation.replace_all_uses(op, made)
        if not op.users:
            operands = dict.fromkeys(op.operands)
            computation.remove(op)
            for operand in operands:
                computation.remove_dead(operand)
        return True

    @abstractmethod
    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the replacement of `op`; `op` itself when it stays."""


Visit = Callable[[Instruction, Module, PassContext], bool]
"""Rewrites an op, which may be removed; returns whether anything changed."""


def op_pass(
    pass_name: str, *opcodes: str, ensures: frozenset[str] = frozenset()
) -> Callable[[Visit], OpPass]:
    """Make the decorated function the pass `pass_name`: an `OpPass` of `opcodes`.

    `ensures`: see `Pass`.
    """

    def make(function: Visit) -> OpPass:
        class Made(OpPass):
            def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
                return function(op, module, context)

        Made.ensures = ensures
        return named_pass(Made, function, pass_name, opcodes)

    return make


Expand = Callable[[Instruction, Builder, Module], Instruction]
"""Returns the replacement of an op, added by a builder; the op itself when it stays."""


def expander(
    pass_name: str, *opcodes: str, ensures: frozenset[str] = frozenset(), lowers: bool = False
) -> Callable[[Expand], Expander]:
    """Make the decorated function the pass `pass_name`: an `Expander` of `opcodes`.

    `ensures`, `lowers`: see `Pass`.
    """

    def make(function: Expand) -> Expander:
        class Made(Expander):
            def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
                return function(op, build, module)

        Made.ensures, Made.lowers = ensures, lowers
        return named_pass(Made, function, pass_name, opcodes)

    return make


def in_order(op: Instruction, rewrite: Callable[[], Result]) -> Result:
    """Rewrite an op; all that is made for it runs after its control predecessors."""
    computation, before = op.computation, op.control_predecessors
    if not before:
        return rewrite()
    known = set(computation.instructions)
    made = rewrite()
    for item in computation.instructions:
        if item not in known:
            item.run_after((*dict.fromkeys((*item.control_predecessors, *before)),))
    return made

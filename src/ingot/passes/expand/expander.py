# SPDX-License-Identifier: Apache-2.0
"""Base of the passes that rewrite ops one by one: the opcodes, and the replacement of each op."""

from __future__ import annotations

from abc import abstractmethod

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.support.records import record


@record
class Expander(Pass):
    """Replaces every instruction whose opcode is among `concerns` by the result of `expand`.

    Invariant: `expand` adds instructions to the computation of `op` and returns a value of the same
    shape; it does not remove `op`. The control predecessors of `op` run before all of them, and its
    control successors run after the value.
    """

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite in every reachable computation."""
        changed, opcodes = False, self.concerns
        assert opcodes is not None, "an expander names the opcodes that it replaces"
        for computation in module.post_order():
            for op in [i for i in computation.post_order() if i.opcode in opcodes]:
                if op.parent is None:
                    continue
                count = len(computation)
                made = self.expand(op, Builder(computation, op.metadata), module)
                if made is op:
                    continue
                if op.control_predecessors:
                    for item in computation.instructions[count:]:
                        item.run_after(op.control_predecessors)
                computation.transfer_control_deps(op, made)
                computation.replace_all_uses(op, made)
                if not op.users:
                    computation.remove(op)
                changed = True
        return changed

    @abstractmethod
    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the replacement of `op`; `op` itself when it stays."""

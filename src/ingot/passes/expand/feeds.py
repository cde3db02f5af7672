# SPDX-License-Identifier: Apache-2.0
"""`infeed` and `outfeed` as calls of the runtime's queues (`ingot.runtime.foreign.feeds`)."""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.passes.expand.foreign import foreign_call
from ingot.support.records import record


@record
class FeedExpander(Expander):
    """Rewrites `infeed` and `outfeed`."""

    name = "feed-expander"
    concerns = frozenset({"infeed", "outfeed"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the call."""
        target = f"ingot.{op.opcode}"
        return foreign_call(build, target, op.operands, op.shape, {})

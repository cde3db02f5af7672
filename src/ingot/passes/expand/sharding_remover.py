"""Annotations of where values lie removed: a program computes the same without them.

`annotate_device_placement` asks for host or device memory, which are one on a CPU.

Source: xla/service/sharding_remover.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.structural import CustomCallAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext

TARGETS = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
    }
)


@dataclass(frozen=True, slots=True)
class ShardingRemover(Pass):
    """Replaces annotations of unchanged shape by what they annotate."""

    name: ClassVar[str] = "sharding-remover"
    opcodes: ClassVar[frozenset[str] | None] = frozenset({"custom-call"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite in every reachable computation."""
        changed = False
        for computation in module.post_order():
            for item in [i for i in computation.instructions if _is_annotation(i)]:
                computation.replace_all_uses(item, item.operands[0])
                computation.remove(item)
                changed = True
        return changed


def _is_annotation(instruction: Instruction) -> bool:
    if instruction.opcode != "custom-call" or len(instruction.operands) != 1:
        return False
    given: CustomCallAttributes = instruction.attributes
    same = instruction.shape == instruction.operands[0].shape
    return given.custom_call_target in TARGETS and same

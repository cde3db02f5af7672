"""Arrays without elements: whatever computes them, the result is empty.

A gather may make elements of an array that has none (windows of size 0 in a dimension that the
result has not): they are zeros.

Source: xla/hlo/transforms/simplifiers/{zero_sized_hlo_elimination,gather_simplifier}.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait
from ingot.hlo.rewrite.census import EMPTY
from ingot.hlo.rewrite.pass_base import Pass, PassContext


@dataclass(frozen=True, slots=True)
class ZeroSizedElimination(Pass):
    """Replaces arrays without elements, and gathers from such, by constants."""

    name: ClassVar[str] = "zero-sized-hlo-elimination"
    concerns: ClassVar[frozenset[str] | None] = frozenset({EMPTY})

    def run(self, module: Module, context: PassContext) -> bool:
        """Replace in every reachable computation."""
        changed = False
        for computation in module.post_order():
            for instruction in computation.instructions:
                if not _is_empty(instruction):
                    continue
                build = Builder(computation, instruction.metadata)
                made = build.full(0, instruction.shape)
                computation.replace(instruction, made)
                changed = True
        return changed


def _is_empty(instruction: Instruction) -> bool:
    """Whether the result has no elements and may be replaced (again and again is not progress)."""
    if not instruction.shape.is_array:
        return False
    from_nothing = instruction.opcode == "gather" and 0 in instruction.operands[0].shape.dims
    if not from_nothing and 0 not in instruction.shape.dims:
        return False
    kept = instruction.opcode in ("parameter", "constant", "broadcast")
    effect = instruction.has(Trait.SIDE_EFFECT) or instruction.has(Trait.COLLECTIVE)
    unused = not instruction.users and not instruction.is_root
    return not (kept or effect or unused or instruction.control_predecessors)

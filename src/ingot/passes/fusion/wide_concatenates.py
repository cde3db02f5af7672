# SPDX-License-Identifier: Apache-2.0
"""Wide concatenations: one of thousands of operands becomes a tree of narrow ones.

A kernel searches for each element the operand that it lies in, so with many operands its run time
and LLVM's time grow with the square of their number. Here each part has few operands, and is a
kernel of its own: `why_not` of the fusion's legality does not join parts.

Invariant: no concatenation has more than `MAX_PARTS` operands.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.rewrite.pass_base import PassContext
    >>> b = Builder("main")
    >>> joined = b.concatenate(*[b.parameter(0, "f32[2]")] * 100, dimensions=(0,))
    >>> wide_concatenates.run(Module.of("m", b.build(joined)), PassContext())
    True
    >>> [len(part.operands) for part in b.computation.root.operands]
    [64, 36]
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.passes.fusion.legality import MAX_PARTS


@expander("wide-concatenates", "concatenate", lowers=True)
def wide_concatenates(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Split concatenations of many operands into trees."""
    if len(op.operands) <= MAX_PARTS:
        return op
    level: list[Instruction] = list(op.operands)

    def joined(first: int) -> Instruction:
        group = level[first : first + MAX_PARTS]
        dimensions = op.attributes.dimensions
        return build.concatenate(*group, dimensions=dimensions) if len(group) > 1 else group[0]

    while len(level) > 1:
        level = [joined(first) for first in range(0, len(level), MAX_PARTS)]
    return level[0]

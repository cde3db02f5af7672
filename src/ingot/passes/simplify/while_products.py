# SPDX-License-Identifier: Apache-2.0
"""while-loop-product-layout: a loop's products read a factor that stays the same as they like it.

A product of few rows by a matrix that it reads along the sum, `x w^T`, packs the matrix anew: as
much work as some rows. In a loop that does not change the matrix (the weights of a recurrent layer)
the matrix is transposed once, before the loop, and becomes one more element of the state.

Invariant: a loop that is not entered may compute more than before, but has no effect.

Example:
    while (x, w): x = tanh(dot(x, w, rhs_contracting_dims={1}))
becomes
    while (x, w, transpose(w)): x = tanh(dot(x, t, rhs_contracting_dims={0}))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.dots import DotAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.trip_count import element_index
from ingot.passes.simplify.while_state import hoist, is_plain


@dataclass(frozen=True, slots=True)
class WhileLoopProductLayout(Pass):
    """Transposes matrices that products of a loop would pack in each trip.

    Attributes:
        least_rows: products of fewer rows read the matrix once, as it lies.
        most_rows: in products of more, packing the matrix is a small part.
        least_elements: smaller matrices are packed in no time.
    """

    name: ClassVar[str] = "while-loop-product-layout"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"while"})
    least_rows: int = 2
    most_rows: int = 64
    least_elements: int = 16_384

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit the loops of every reachable computation, inner ones first."""
        changed = False
        for computation in module.post_order():
            for loop in [i for i in computation.post_order() if i.opcode == "while"]:
                if loop.parent is not None and is_plain(loop):
                    changed = self._transpose(loop, module) or changed
        return changed

    def _transpose(self, loop: Instruction, module: Module) -> bool:
        body = loop.attributes.body
        found: dict[Instruction, list[Instruction]] = {}
        for dot in body.post_order():
            if dot.opcode == "dot" and self._packs(dot) and _is_kept(dot.operands[1], loop):
                found.setdefault(dot.operands[1], []).append(dot)
        moved: list[Instruction] = []
        for matrix, dots in found.items():
            turned = Builder(body, dots[0].metadata).transpose(matrix, dimensions=(1, 0))
            moved.append(turned)
            for dot in dots:
                made = Builder(body, dot.metadata).dot(
                    dot.operands[0],
                    turned,
                    lhs_contracting_dims=(1,),
                    rhs_contracting_dims=(0,),
                    operand_precision=dot.as_(DotAttributes).operand_precision,
                    algorithm=dot.as_(DotAttributes).algorithm,
                )
                body.replace_all_uses(dot, made)
                body.remove(dot)
        if moved:
            hoist(loop, moved, module)
        return bool(moved)

    def _packs(self, dot: Instruction) -> bool:
        """Whether a product has few rows, and reads a large matrix along the sum."""
        left, right = dot.operands
        given = dot.as_(DotAttributes)
        if left.shape.rank != 2 or right.shape.rank != 2 or given.lhs_batch_dims:
            return False
        if given.lhs_contracting_dims != (1,) or given.rhs_contracting_dims != (1,):
            return False
        rows, elements = left.shape.dims[0], right.shape.size
        few = isinstance(rows, int) and self.least_rows <= rows <= self.most_rows
        return few and isinstance(elements, int) and elements >= self.least_elements


def _is_kept(matrix: Instruction, loop: Instruction) -> bool:
    """Whether a value of a loop's body is an element of the state that no trip changes."""
    body = loop.attributes.body
    index = element_index(matrix, body.parameters[0])
    return index is not None and body.root.operands[index] is matrix

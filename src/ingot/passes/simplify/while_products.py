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

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.dots import DotAttributes
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.dots import Side, dot_of, sides_of
from ingot.passes.simplify.while_state import LoopPass, hoist, unchanged_elements
from ingot.support.records import record


@record
class WhileLoopProductLayout(LoopPass):
    """Transposes matrices that products of a loop would pack in each trip.

    Attributes:
        least_rows: products of fewer rows read the matrix once, in place.
        most_rows: in products of more, packing the matrix is a small part.
        least_elements: smaller matrices are packed in no time.
    """

    name = "while-loop-product-layout"
    least_rows: int = 2
    most_rows: int = 64
    least_elements: int = 16_384

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Transpose matrices before a loop."""
        body: Computation = loop.attributes.body
        kept = {body.root.operands[number] for number in unchanged_elements(body)}
        found: dict[Instruction, list[Instruction]] = {}
        for dot in body.post_order():
            if dot.opcode == "dot" and self._packs(dot) and dot.operands[1] in kept:
                found.setdefault(dot.operands[1], []).append(dot)
        moved: list[Instruction] = []
        for matrix, dots in found.items():
            transposed = Builder(body, dots[0].metadata).transpose(matrix, dimensions=(1, 0))
            moved.append(transposed)
            for dot in dots:
                left, _ = sides_of(dot)
                sides = (left, Side(transposed, (), (0,)))
                body.replace(dot, dot_of(dot, Builder(body, dot.metadata), sides))
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

# SPDX-License-Identifier: Apache-2.0
"""The two operands of a dot, each with its batch, free and contracting dimensions.

A pass on dots asks for the sides of one (`sides_of`), changes them, and makes a dot of the result
(`dot_of`).
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.support.records import record


@record
class Side:
    """One operand of a dot: its value and which dimensions are batch and contracting."""

    value: Instruction
    batch: tuple[int, ...]
    contracting: tuple[int, ...]

    @property
    def free(self) -> tuple[int, ...]:
        """The dimensions that are in the result."""
        taken = (*self.batch, *self.contracting)
        return tuple(p for p in range(self.value.shape.rank) if p not in taken)

    @property
    def is_native(self) -> bool:
        """Whether backends support this operand as it is."""
        batches = len(self.batch)
        return (
            self.batch == (0,) * batches
            and batches <= 1
            and len(self.contracting) == 1
            and self.value.shape.rank == batches + 2
        )

    def folded(self) -> Side:
        """Return the side with the transposes of its value folded into its dimensions."""
        found = self
        while found.value.opcode == "transpose":
            order: tuple[int, ...] = found.value.attributes.dimensions
            batch = tuple(order[dimension] for dimension in found.batch)
            contracting = tuple(order[dimension] for dimension in found.contracting)
            # Free dimensions must come out in the order in which the result has them.
            free = tuple(order[dimension] for dimension in found.free)
            inner = Side(found.value.operands[0], batch, contracting)
            if free != inner.free:
                break
            found = inner
        return found

    def sizes(self, dimensions: tuple[int, ...]) -> tuple[int | Dim, ...]:
        """Return the sizes of dimensions."""
        return tuple(self.value.shape.dims[dimension] for dimension in dimensions)


def sides_of(dot: Instruction) -> tuple[Side, Side]:
    """Return both operands of a dot."""
    given = dot.as_(DotAttributes)
    lhs, rhs = dot.operands
    return (
        Side(lhs, given.lhs_batch_dims, given.lhs_contracting_dims),
        Side(rhs, given.rhs_batch_dims, given.rhs_contracting_dims),
    )


def dot_of(
    dot: Instruction, build: Builder, sides: tuple[Side, Side], *, swapped: bool = False
) -> Instruction:
    """Return `dot` on other operands; `swapped`: they have changed sides."""
    lhs, rhs = sides
    precision: tuple[str, ...] = dot.attributes.operand_precision
    left, right = lhs.value.shape, rhs.value.shape
    batch = lhs.sizes(lhs.batch)
    dims = (
        *batch,
        *(left.dims[p] for p in lhs.free),
        *(right.dims[p] for p in rhs.free),
    )
    made = build.dot(
        lhs.value,
        rhs.value,
        shape=dot.shape.with_dims(dims),
        lhs_batch_dims=lhs.batch,
        lhs_contracting_dims=lhs.contracting,
        rhs_batch_dims=rhs.batch,
        rhs_contracting_dims=rhs.contracting,
        operand_precision=precision[::-1] if swapped else precision,
        algorithm=dot.attributes.algorithm,
    )
    made.extra = dict(dot.extra)
    return made

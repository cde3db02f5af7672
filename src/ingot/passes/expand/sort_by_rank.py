# SPDX-License-Identifier: Apache-2.0
"""A sort that compares every pair, for comparators that kernels do not support.

Part of `reducer-expander`. An element's rank is the number of those that come before it; of equal
ones the left comes first, so the sort is stable.

Invariant: ranks are a permutation, if the comparator is a strict weak order.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.expand.element_loops import applied


def sorted_by_rank(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    """Return the sorted operands of the sort `op`, each element moved to its rank.

    The rank counts the elements that come before, and equal ones to the left. Ops that compare all
    pairs are added by `build`, the loop that calls the comparator to `module`.
    """
    comparator: Computation = op.attributes.to_apply
    axis: int = op.attributes.dimensions[0]
    dims = op.operands[0].shape.dims
    size, last = dims[axis], len(dims)
    dimensions = tuple(dim for dim in range(last) if dim != axis)
    rest = tuple(dims[dim] for dim in dimensions)
    rows = [build.transpose(one, dimensions=(*dimensions, axis)) for one in op.operands]
    square = (*rest, size, size)
    outer = tuple(range(last - 1))
    firsts = [build.broadcast_to(one, square, (*outer, last - 1)) for one in rows]
    seconds = [build.broadcast_to(one, square, (*outer, last)) for one in rows]
    pairs = [one for pair in zip(firsts, seconds, strict=True) for one in pair]
    (before,) = applied(build, module, comparator, pairs)
    swapped = build.transpose(before, dimensions=(*outer, last, last - 1))
    counts = Shape.array(S32, square)
    left, right = (build.iota(shape=counts, iota_dimension=n) for n in (last - 1, last))
    equal = build.not_(build.or_(before, swapped))
    first = build.and_(equal, build.compare(left, right, direction="LT"))
    ahead = build.convert_to(build.or_(before, first), S32)
    zero, add = build.constant(0, S32), module.take(scalar_computation("add", "s32"))
    rank = build.reduce(ahead, zero, dimensions=(last - 1,), to_apply=add)
    return [_by_rank(build, one, rank, module, (*dimensions, axis)) for one in rows]


def _by_rank(
    build: Builder, row: Instruction, rank: Instruction, module: Module, order: tuple[int, ...]
) -> Instruction:
    """Return the rows with each element at its rank, in the dimensions' own order."""
    dims = row.shape.dims
    axis = len(dims) - 1
    element = row.shape.dtype
    indices = Shape.array(S32, (*dims, 1))
    parts = [build.iota(shape=indices, iota_dimension=n) for n in range(axis)]
    parts.append(build.reshape_to(rank, (*dims, 1)))
    where = parts[0] if len(parts) == 1 else build.concatenate(*parts, dimensions=(len(dims),))
    b = Builder("put")
    scalar = Shape.array(element, ())
    b.parameter(0, scalar)
    put = module.take(b.build(b.parameter(1, scalar)))
    placed = build.scatter(
        row,
        where,
        row,
        update_window_dims=(),
        inserted_window_dims=tuple(range(len(dims))),
        scatter_dims_to_operand_dims=tuple(range(len(dims))),
        index_vector_dim=len(dims),
        unique_indices=True,
        to_apply=put,
    )
    back = tuple(order.index(dim) for dim in range(len(order)))
    return build.transpose(placed, dimensions=back)

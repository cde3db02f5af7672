# SPDX-License-Identifier: Apache-2.0
"""Gather: positions that are constant, and evenly spaced along one dimension."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.rewrite.pattern import m
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import x, y


def _takes_planes(gather: Instruction) -> bool:
    """Whether a gather takes everything at constant positions along one dimension."""
    operand, indices = gather.operands
    given = gather.as_(GatherAttributes)
    if len(given.start_index_map) != 1 or given.start_index_map != given.collapsed_slice_dims:
        return False
    (dim,) = given.start_index_map
    sizes = [size for number, size in enumerate(operand.shape.dims) if number != dim]
    taken = [size for number, size in enumerate(given.slice_sizes) if number != dim]
    is_list = gather.shape.rank == operand.shape.rank and isinstance(operand.shape.dims[dim], int)
    return is_list and sizes == taken and indices.opcode == "constant" and indices.shape.size != 0


@rule(
    m.gather(x, y, where=_takes_planes),
    example="""
        y = s32[3] constant({8, 5, 2})
        a = f32[4,3,5] gather(f32[4,9,5] x, y), offset_dims={0,2}, collapsed_slice_dims={1},
          start_index_map={1}, index_vector_dim=1, slice_sizes={4,1,5}""",
)
def gather_evenly_spaced(
    root: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction | None:
    """gather(x, a + b * iota) => slice(x), reversed if b < 0, a broadcast if b = 0"""
    given = root.as_(GatherAttributes)
    (dim,) = given.start_index_map
    last = x.shape.dims[dim] - 1
    first, *others = (min(max(at, 0), last) for at in y.attributes.literal.value.ravel().tolist())
    step = others[0] - first if others else 1
    count = 1 + len(others)
    if any(at != first + (1 + number) * step for number, at in enumerate(others)):
        return None
    low, high = sorted((first, first + (count - 1) * step))
    made = build.slice_along(x, dim, low, high + 1, abs(step) or 1)
    if step < 0:
        made = build.reverse(made, dimensions=(dim,))
    (place,) = set(range(root.shape.rank)) - set(given.offset_dims)
    others_in_order = [number for number in range(x.shape.rank) if number != dim]
    if step == 0:
        made = build.reshape_to(made, tuple(x.shape.dims[number] for number in others_in_order))
        return build.broadcast(made, shape=root.shape, dimensions=given.offset_dims)
    if place == dim:
        return made
    order = (*others_in_order[:place], dim, *others_in_order[place:])
    return build.transpose(made, dimensions=order)

# SPDX-License-Identifier: Apache-2.0
"""Scatters of a single window become dynamic-update-slices, which can be fused and done in place.

`x.at[i].set(v)` in a loop is the usual source. A scatter drops a window that is not wholly inside
the operand; a dynamic-update-slice moves it inside. So the new value is written only if the window
was inside, else the old value is.

Source: xla/service/scatter_expander.cc (mode kEliminateSimpleScatters), without its loop.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import product
from ingot.hlo.dtype import PRED, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import ScatterAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape


@expander("scatter-simplifier", "scatter")
def scatter_simplifier(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites scatters of one window and one operand into dynamic-update-slices."""
    return _update(op, build) if _is_simple(op) else op


_POINTWISE = ops_with(Trait.LEAF, Trait.ELEMENTWISE)


def _is_simple(scatter: Instruction) -> bool:
    if len(scatter.operands) != 3 or not all(o.shape.is_static for o in scatter.operands):
        return False
    given = scatter.as_(ScatterAttributes)
    operand, indices, updates = scatter.operands
    starts = len(given.scatter_dims_to_operand_dims)
    body = given.to_apply.post_order()
    return (
        indices.shape.size == starts
        and operand.shape.size != 0
        and product(_window(scatter)) == updates.shape.size
        and updates.shape.size != 0
        and not given.input_batching_dims
        and all(i.opcode in _POINTWISE for i in body)
    )


def _window(scatter: Instruction) -> tuple[int, ...]:
    """Return the sizes of the window in the operand."""
    given = scatter.as_(ScatterAttributes)
    operand, _, updates = scatter.operands
    sizes = iter([updates.shape.static_dims[number] for number in given.update_window_dims])
    dropped = (*given.inserted_window_dims, *given.input_batching_dims)
    return tuple(1 if dim in dropped else next(sizes) for dim in range(operand.shape.rank))


def _update(scatter: Instruction, build: Builder) -> Instruction:
    given = scatter.as_(ScatterAttributes)
    operand, indices, updates = scatter.operands
    window = _window(scatter)
    if indices.shape.dtype not in (S32, S64):
        indices = build.convert_to(indices, S64)
    order = given.scatter_dims_to_operand_dims
    flat = build.reshape_to(indices, (len(order),))
    starts = [_start(build, flat, dim, order) for dim in range(operand.shape.rank)]
    update = build.reshape_to(updates, window)
    old = build.dynamic_slice(operand, *starts, dynamic_slice_sizes=window)
    new = _combined(build, given.to_apply, old, update)
    inside = [
        check
        for dim in order
        for check in _checks(build, starts[dim], operand.shape.static_dims[dim] - window[dim])
    ]
    if inside:  # no index at all: the window starts at zero
        held = inside[0]
        for check in inside[1:]:
            held = build.and_(held, check)
        held = build.broadcast(held, shape=Shape.array(PRED, window), dimensions=())
        new = build.select(held, new, old)
    return build.dynamic_update_slice(operand, new, *starts)


def _start(build: Builder, flat: Instruction, dim: int, order: tuple[int, ...]) -> Instruction:
    """Return the window's start along dimension `dim` of the operand."""
    if dim not in order:
        return build.constant(0, flat.shape.dtype)
    number = order.index(dim)
    if len(order) > 1:
        flat = build.slice(flat, slice=((number, number + 1, 1),))
    return build.reshape_to(flat, ())


def _checks(build: Builder, start: Instruction, last: int) -> list[Instruction]:
    """Return the conditions for `start` being one of 0 … `last`."""
    return [
        build.compare(start, build.constant(bound, start.shape.dtype), direction=direction)
        for direction, bound in (("GE", 0), ("LE", last))
    ]


def _combined(
    build: Builder, combiner: Computation, old: Instruction, update: Instruction
) -> Instruction:
    """Return the combiner applied to whole windows."""
    return build.map(old, update, dimensions=tuple(range(old.shape.rank)), to_apply=combiner)

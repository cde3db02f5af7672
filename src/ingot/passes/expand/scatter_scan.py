# SPDX-License-Identifier: Apache-2.0
"""A scatter as a scan over its updates, for combiners that kernels do not support.

Part of `reducer-expander`. Each update finds its element in the flat operands; one that would lie
outside changes nothing.

Source: xla/service/scatter_expander.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import ScatterAttributes
from ingot.hlo.shape import Shape
from ingot.passes.expand.element_loops import converted


def scattered(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    """Return the results of the scatter `op`, as arrays of rank 1, by a scan over its updates.

    Updates outside of the operand change nothing. The step of the scan is added to `module`.
    """
    combiner: Computation = op.attributes.to_apply
    count = len(op.operands) // 2
    operands, updates = op.operands[:count], op.operands[count + 1 :]
    size, number = updates[0].shape.size, operands[0].shape.size
    where = build.reshape_to(_target(op, build), (size,))
    rows = [build.reshape_to(update, (size,)) for update in updates]
    flat = [build.reshape_to(operand, (number,)) for operand in operands]
    done = build.scan(
        where,
        *rows,
        *flat,
        num_carries=count,
        dimensions=(0,),
        to_apply=module.take(_scatter_step(combiner, [one.shape for one in flat])),
    )
    dims = operands[0].shape.dims
    return [build.reshape_to(one, dims) for one in build.elements_of(done)]


def _target(op: Instruction, build: Builder) -> Instruction:
    """Return for each update the number of the element that it goes to; -1 for none."""
    given = op.as_(ScatterAttributes)
    count = len(op.operands) // 2
    operand, indices, update = op.operands[0], op.operands[count], op.operands[-1]
    dims = update.shape.dims
    wide = Shape.array(S64, dims)
    batch = tuple(n for n in range(len(dims)) if n not in given.update_window_dims)
    window = iter(given.update_window_dims)
    dropped = (*given.inserted_window_dims, *given.input_batching_dims)
    element, inside = build.full(0, wide), build.full(True, Shape.array(PRED, dims))
    for number, size in enumerate(operand.shape.dims):
        position, extent = build.full(0, wide), 1
        if number not in dropped:
            dim = next(window)
            position, extent = build.iota(shape=wide, iota_dimension=dim), dims[dim]
        if number in given.input_batching_dims:
            at = given.scatter_indices_batching_dims[given.input_batching_dims.index(number)]
            at -= at > given.index_vector_dim
            position = build.iota(shape=wide, iota_dimension=batch[at])
        elif number in given.scatter_dims_to_operand_dims:
            which = given.scatter_dims_to_operand_dims.index(number)
            start = build.broadcast_to(_start(indices, which, given, build), dims, batch)
            last = build.full(size - extent, wide)
            low = build.compare(start, build.full(0, wide), direction="GE")
            high = build.compare(start, last, direction="LE")
            inside = build.and_(inside, build.and_(low, high))
            position = build.add(position, start)
        element = build.add(build.multiply(element, build.full(size, wide)), position)
    return build.select(inside, element, build.full(-1, wide))


def _start(
    indices: Instruction, which: int, given: ScatterAttributes, build: Builder
) -> Instruction:
    """Return component `which` of every index vector, as s64."""
    dims, at = indices.shape.dims, given.index_vector_dim
    if at < len(dims):
        boxes = [(0, size, 1) for size in dims]
        boxes[at] = (which, which + 1, 1)
        taken = build.slice(indices, slice=tuple(boxes))
        indices = build.reshape_to(taken, (*dims[:at], *dims[at + 1 :]))
    return build.convert_to(indices, S64)


def _scatter_step(combiner: Computation, operands: Sequence[Shape]) -> Computation:
    """Return the step (element, updates, operands) -> operands."""
    b = Builder("scatter_step")
    count = len(operands)
    updates = [Shape.array(shape.dtype, ()) for shape in operands]
    shapes = [Shape.array(S64, ()), *updates, *operands]
    where, *given = [b.parameter(n, shape) for n, shape in enumerate(shapes)]
    values, arrays = given[:count], given[count:]
    inside = b.compare(where, b.constant(0, S64), direction="GE")
    found = [b.dynamic_slice(one, where, dynamic_slice_sizes=(1,)) for one in arrays]
    old = [b.reshape_to(one, ()) for one in found]
    taken = [*converted(b, [*old, *values], combiner.parameters)]
    new = converted(b, b.elements_of(b.call(*taken, to_apply=combiner)), old)
    selected = [b.select(inside, *pair) for pair in zip(new, old, strict=True)]
    boxes = [b.reshape_to(one, (1,)) for one in selected]
    results = [
        b.dynamic_update_slice(array, box, where) for array, box in zip(arrays, boxes, strict=True)
    ]
    return b.build(b.tuple(*results))

# SPDX-License-Identifier: Apache-2.0
"""In-place updates: `dynamic-update-slice` and `scatter` as loop kernels over the update.

The result buffer already holds the first operand (buffer assignment makes them one); the kernel
writes only the elements that change. A scatter visits its updates in order on one thread, so no
result depends on timing: a later update of the same element wins, or combines.
"""

from __future__ import annotations

from ingot.analysis.frames import ONE, Frame, FrameMap
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import ScatterAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import (
    Point,
    batch_dim,
    inside,
    start_index,
    window_origin,
    with_value,
)
from ingot.kernel.elemental.rules import elemental_lowering
from ingot.kernel.expr import Expr, converted
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, Combiner, LoopKernel, Pass, Store
from ingot.kernel.loop.build import axis_name, buffers_of, combiner_of, point_of
from ingot.kernel.rewrite import applied


def build_update_kernel(fused: Computation) -> LoopKernel:
    """Return the kernel of a fused computation whose root updates in place."""
    root = fused.root
    count = len(root.operands) // 2 if root.opcode == "scatter" else 1
    update = root.operands[count + 1] if root.opcode == "scatter" else root.operands[1]
    frames = FrameMap()
    frame = frames.axes_for(update.shape.dims)
    extents = {axis_name(n): extent for n, extent in enumerate(frames.extents)}
    lowering = elemental_lowering(fused, extents)
    first = len(fused.parameters)
    if root.opcode == "scatter":
        stores = _scatter_stores(lowering, root, frame, first)
    else:
        stores = (_slice_store(lowering, root, frame, first),)
    grid = tuple(Axis(axis_name(axis), frames.extents[axis]) for axis in frame if axis != ONE)
    serial = root.opcode == "scatter"
    return LoopKernel(grid, (Pass((), (), stores),), buffers_of(fused), serial)


def _slice_store(
    lowering: ElementalLowering, root: Instruction, frame: Frame, buffer: int
) -> Store:
    operand, update = root.operands[:2]
    point = point_of(frame)

    def start(dim: int) -> Expr:
        return lowering.operand(root, dim + 2, Point(()))

    origin, where = window_origin(point, operand.shape.dims, update.shape.dims, start)
    index = [first + position for first, position in zip(origin, point.index, strict=True)]
    element = linearize(index, operand.shape.dims)
    return Store(buffer, element, lowering.value(update, point), where.values)


def _scatter_stores(
    lowering: ElementalLowering, root: Instruction, frame: Frame, first: int
) -> tuple[Store, ...]:
    count = len(root.operands) // 2
    point = point_of(frame)
    element, values, mask = _scatter_target(lowering, root, point)
    combiner = combiner_of(root)
    updates = [lowering.value(root.operands[count + 1 + n], point) for n in range(count)]
    if count > 1:
        return _joint_stores(updates, (element, values, mask), combiner, first)
    (value,) = updates
    (result,) = combiner.results
    if result.op == "argument" and result.payload == 1:
        return (Store(first, element, value, values, mask),)
    return (Store(first, element, value, values, mask, combiner),)


def _joint_stores(
    updates: list[Expr],
    target: tuple[int | Dim, tuple[Expr, ...], Expr | None],
    combiner: Combiner,
    first: int,
) -> tuple[Store, ...]:
    """Return the stores of several operands, whose combined values may use each other's."""
    element, values, mask = target
    # A value that the index need not use: the value read here changes from update to update.
    used = values or (ex.index(0),)
    arguments = [
        ex.load(first + number, element, update.dtype, used, mask)
        for number, update in enumerate(updates)
    ]
    return tuple(
        Store(first + number, element, result, values, mask)
        for number, result in enumerate(applied(combiner, (*arguments, *updates)))
    )


def _scatter_target(
    lowering: ElementalLowering, root: Instruction, point: Point
) -> tuple[int | Dim, tuple[Expr, ...], Expr | None]:
    """Return the element that an update goes to, its run-time values, and whether it is inside.

    An update whose window does not lie wholly inside the operand is dropped (StableHLO scatter).
    """
    given = root.as_(ScatterAttributes)
    vector_dim = given.index_vector_dim
    operand, indices = root.operands[0], root.operands[len(root.operands) // 2]
    window_dims = given.update_window_dims
    batch = [p for number, p in enumerate(point.index) if number not in window_dims]
    window = iter([point.index[number] for number in window_dims])
    sizes = iter([root.operands[-1].shape.dims[number] for number in window_dims])
    dropped = (*given.inserted_window_dims, *given.input_batching_dims)
    where, mask = point, None
    index: list[int | Dim] = []
    for number, size in enumerate(operand.shape.dims):
        position: int | Dim = 0 if number in dropped else next(window)
        extent: int | Dim = 1 if number in dropped else next(sizes)
        if number in given.input_batching_dims:
            which = given.input_batching_dims.index(number)
            position = batch[batch_dim(given.scatter_indices_batching_dims[which], vector_dim)]
        elif number in given.scatter_dims_to_operand_dims:
            which = given.scatter_dims_to_operand_dims.index(number)
            where_in_indices = start_index(batch, which, vector_dim, indices.shape.rank)
            start = lowering.value(indices, Point(where_in_indices))
            symbol, where = with_value(where, converted(start, S64))
            mask = ex.conjunction(mask, inside(start, size - extent + 1))
            position = position + symbol
        index.append(position)
    return linearize(index, operand.shape.dims), where.values, mask

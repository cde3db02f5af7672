# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters as HLO has them, at indices that arrays give.

HLO's gather clamps an index out of range and its scatter drops one; front ends that want an error
check indices before. Nothing is taken of an empty axis: the result is zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, Sizes
from ingot.hlo import dim as dim_math
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def take(
    b: ArrayBuilder,
    operand: Instruction,
    indices: Instruction,
    axis: int = 0,
    batch_dims: int = 0,
) -> Instruction:
    """Take slices along `axis` at indices that are in range; of nothing, at none."""
    rank, dims = operand.shape.rank, operand.shape.dims
    if dims[axis] == 0:
        made = (*dims[:axis], *indices.shape.dims[batch_dims:], *dims[axis + 1 :])
        return b.zeros(operand.shape.with_dims(made))
    added = indices.shape.rank - batch_dims
    offset_dims = tuple(range(batch_dims, axis)) + tuple(range(axis + added, rank - 1 + added))
    sizes: Sizes = tuple(
        1 if dim == axis or dim < batch_dims else size for dim, size in enumerate(dims)
    )
    return b.emit(
        "gather",
        operand,
        indices,
        offset_dims=offset_dims,
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=tuple(range(batch_dims)),
        start_indices_batching_dims=tuple(range(batch_dims)),
        index_vector_dim=indices.shape.rank,
        slice_sizes=sizes,
    )


def take_vectors(b: ArrayBuilder, operand: Instruction, indices: Instruction) -> Instruction:
    """Take slices at index vectors, the last dimension of `indices`, which are in range."""
    *outer, depth = indices.shape.dims
    assert isinstance(depth, int)
    dims = operand.shape.dims
    if 0 in dims[:depth]:
        return b.zeros(operand.shape.with_dims((*outer, *dims[depth:])))
    return b.emit(
        "gather",
        operand,
        indices,
        offset_dims=tuple(range(len(outer), len(outer) + len(dims) - depth)),
        collapsed_slice_dims=tuple(range(depth)),
        start_index_map=tuple(range(depth)),
        index_vector_dim=len(outer),
        slice_sizes=(*([1] * depth), *dims[depth:]),
    )


def take_elements(
    b: ArrayBuilder, operand: Instruction, indices: Instruction, axis: int
) -> Instruction:
    """Return `operand[i, j, indices[i, j, k], l]`: one element of a row for each index.

    The indices have the operand's rank, and its sizes but along `axis`.
    """
    rank, dims = operand.shape.rank, operand.shape.dims
    if dims[axis] == 0:
        return b.zeros(operand.shape.with_dims(indices.shape.dims))
    rest = tuple(dim for dim in range(rank) if dim != axis)
    return b.emit(
        "gather",
        operand,
        indices,
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
    )


def rolled_by(b: ArrayBuilder, operand: Instruction, shift: int, axis: int) -> Instruction:
    """Roll by a known number: the dimension is cut in two, which change places."""
    size = operand.shape.dims[axis]
    rest = 0 if size in (0, 1) else dim_math.mod(abs(shift), size)
    if rest == 0:
        return operand
    cut = rest if shift < 0 else size - rest
    parts = [b.sliced(operand, axis, cut, size), b.sliced(operand, axis, 0, cut)]
    return b.concatenated(parts, axis)


def rolled(b: ArrayBuilder, operand: Instruction, shift: Instruction, axis: int) -> Instruction:
    """Roll by a number that only run time knows: a window of two copies, one after the other."""
    dims = operand.shape.dims
    if dims[axis] == 0:
        return operand
    size = b.scalar(dims[axis], S64)
    # The remainder has the sign of the shift: in 1 - size .. size - 1.
    rest = b.emit("remainder", b.convert_to(shift, S64), size)
    start = b.select(b.compared("GT", rest, 0), b.subtract(size, rest), b.negate(rest))
    twice = b.concatenated([operand, operand], axis)
    return b.slice_at(twice, axis, start, dims[axis])


def combiner(b: ArrayBuilder, opcode: str, element: DType) -> Computation:
    """Return what a scatter does with an old and a new element; "update" keeps the new one."""
    if opcode != "update":
        return b.reducer(opcode, element)
    key = ("update", element.name)
    reducers = b.reducers
    if key not in reducers:
        inner = Builder(f"update_{element.name}")
        inner.parameter(0, Shape.array(element, ()), "old")
        reducers[key] = inner.build(inner.parameter(1, Shape.array(element, ()), "new"))
    return reducers[key]


def scatter_vectors(
    b: ArrayBuilder,
    opcode: str,
    operand: Instruction,
    indices: Instruction,
    updates: Instruction,
) -> Instruction:
    """Combine slices into the elements at index vectors (the last dimension).

    Args:
        b: where.
        opcode: the combiner's, or "update".
        operand: the array before the update.
        indices: `[outer..., depth]`, indices along the first `depth` dimensions of the operand.
        updates: `[outer..., the other dimensions of the operand...]`.
    """
    outer = indices.shape.rank - 1
    window = updates.shape.rank - outer
    chosen = tuple(range(operand.shape.rank - window))
    return b.emit(
        "scatter",
        operand,
        indices,
        updates,
        update_window_dims=tuple(range(outer, outer + window)),
        inserted_window_dims=chosen,
        scatter_dims_to_operand_dims=chosen,
        index_vector_dim=outer,
        to_apply=combiner(b, opcode, operand.shape.dtype),
    )


def scatter_slices(
    b: ArrayBuilder,
    opcode: str,
    operand: Instruction,
    indices: Instruction,
    updates: Instruction,
    axis: int = 0,
) -> Instruction:
    """Combine slices into those numbered by `indices`, of any rank, along an axis.

    The updates have the operand's dimensions with those of the indices in the place of `axis`.
    """
    before, added = tuple(range(axis)), indices.shape.rank
    after = tuple(range(axis + added, operand.shape.rank - 1 + added))
    return b.emit(
        "scatter",
        operand,
        indices,
        updates,
        update_window_dims=before + after,
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        index_vector_dim=added,
        to_apply=combiner(b, opcode, operand.shape.dtype),
    )


def scatter_elements(
    b: ArrayBuilder,
    opcode: str,
    operand: Instruction,
    indices: Instruction,
    updates: Instruction,
    axis: int,
) -> Instruction:
    """Combine each update into one element of its row: the opposite of `take_elements`."""
    rest: Sequence[int] = tuple(dim for dim in range(operand.shape.rank) if dim != axis)
    return b.emit(
        "scatter",
        operand,
        indices,
        updates,
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        input_batching_dims=tuple(rest),
        scatter_indices_batching_dims=tuple(rest),
        index_vector_dim=operand.shape.rank,
        to_apply=combiner(b, opcode, operand.shape.dtype),
    )


def row_at(b: ArrayBuilder, x: Instruction, index: Instruction) -> Instruction:
    """Return x[index], without the first dimension; `index` is a scalar."""
    return b.reshape_to(b.slice_at(x, 0, index, 1), x.shape.dims[1:])


def with_row(b: ArrayBuilder, x: Instruction, index: Instruction, row: Instruction) -> Instruction:
    """Return `x` with another x[index]; `index` is a scalar."""
    return b.update_at(x, b.reshape_to(row, (1, *row.shape.dims)), 0, index)

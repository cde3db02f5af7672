# SPDX-License-Identifier: Apache-2.0
"""Pad, concatenate and tuple: values put together."""

from __future__ import annotations

import math

from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.rewrite.pattern import m
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import dimensions_of, x, y


@rule(
    m.pad(x, y),
    example="a = f32[4] pad(f32[4] x, f32[] y), padding=0_0",
)
def pad_zero(root: Instruction, x: Instruction) -> Instruction | None:
    """pad(x) => x where nothing is added"""
    widths = root.attributes.padding
    nothing = all(
        low == 0 and high == 0 and (interior == 0 or size == 1)
        for (low, high, interior), size in zip(widths, x.shape.dims, strict=True)
    )
    return x if nothing else None


def _only_adds(instruction: Instruction) -> bool:
    return all(
        low >= 0 and high >= 0 and interior == 0
        for low, high, interior in instruction.attributes.padding
    )


@rule(
    m.pad(m.pad(x, y, name="inner", where=_only_adds), y, where=_only_adds),
    example="""
        a = f32[7] pad(f32[4] x, f32[] y), padding=1_2
        b = f32[10] pad(a, y), padding=3_0""",
)
def pad_pad(
    root: Instruction, inner: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction:
    """pad(pad(x, v), v) => pad(x, v)"""
    both = zip(root.attributes.padding, inner.attributes.padding, strict=True)
    return build.pad(x, y, padding=tuple((a[0] + b[0], a[1] + b[1], 0) for a, b in both))


@rule(
    m.pad(x, y, where=lambda i: any(low < 0 or high < 0 for low, high, _ in i.attributes.padding)),
    example="a = f32[2,4] pad(f32[4,5] x, f32[] y), padding=-1_-1x0_-1",
)
def pad_negative(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction | None:
    """pad(x) => slice(x) where elements are only taken away"""
    widths = root.attributes.padding
    if any(low > 0 or high > 0 or interior for low, high, interior in widths):
        return None
    box = tuple(
        (-low, size + high, 1) for (low, high, _), size in zip(widths, x.shape.dims, strict=True)
    )
    return build.slice(x, slice=box)


@rule(
    m.pad(m.broadcast(y, where=lambda i: i.operands[0].shape.is_scalar), y),
    example="""
        a = f32[4] broadcast(f32[] y), dimensions={}
        b = f32[7] pad(a, y), padding=1_2""",
)
def pad_splat(root: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """pad(broadcast(v), v) => broadcast(v)"""
    return build.broadcast_to(y, root.shape.dims)


ONE = (
    identity(
        "concatenate_one: concatenate(x) => x",
        m.concatenate(x),
        x,
        example="a = f32[4] concatenate(f32[4] x), dimensions={0}",
    ),
)


def _dimension(concatenation: Instruction) -> int:
    return dimensions_of(concatenation)[0]


@rule(
    m.concatenate(..., where=lambda i: any(o.shape.dims[_dimension(i)] == 0 for o in i.operands)),
    example="a = f32[6] concatenate(f32[4] x, f32[0] y, f32[2] z), dimensions={0}",
)
def concatenate_empty(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """concatenate(x, empty, y) => concatenate(x, y)"""
    dim = _dimension(root)
    non_empty = [operand for operand in root.operands if operand.shape.dims[dim] != 0]
    return build.concatenate(*non_empty, dimensions=(dim,)) if non_empty else root.operands[0]


def _is_part(operand: Instruction, dim: int) -> bool:
    """Whether an instruction is a concatenation that is merged into the one that uses it."""
    dies = operand.opcode == "concatenate" and operand.use_count == 1 and not operand.is_root
    return dies and _dimension(operand) == dim


def _is_taken(concatenation: Instruction) -> bool:
    """Whether the rule will merge a concatenation into its user when it visits the user."""
    if not _is_part(concatenation, _dimension(concatenation)):
        return False
    (user,) = concatenation.users
    return (
        user.opcode == "concatenate"
        and _dimension(user) == _dimension(concatenation)
        and not user.is_ordered
    )


@rule(
    m.concatenate(..., where=lambda i: any(o.opcode == "concatenate" for o in i.operands)),
    example="""
        a = f32[7] concatenate(f32[4] x, f32[3] y), dimensions={0}
        b = f32[9] concatenate(a, f32[2] z), dimensions={0}""",
)
def concatenate_concatenate(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """concatenate(concatenate(x, y), z) => concatenate(x, y, z), all levels at once"""
    if _is_taken(root):
        return None
    dim = _dimension(root)
    flat: list[Instruction] = []
    work = list(root.operands[::-1])
    while work:
        operand = work.pop()
        if _is_part(operand, dim):
            work.extend(reversed(operand.operands))
        else:
            flat.append(operand)
    if len(flat) == len(root.operands):
        return None
    return build.concatenate(*flat, dimensions=(dim,))


@rule(
    m.concatenate(..., where=lambda i: i.operands[0].opcode == "broadcast"),
    example="""
        a = f32[3] broadcast(f32[] x), dimensions={}
        b = f32[2] broadcast(x), dimensions={}
        c = f32[5] concatenate(a, b), dimensions={0}""",
)
def concatenate_splats(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """concatenate(broadcast(x), broadcast(x)) => broadcast(x) where x does not vary along it"""
    first = root.operands[0]
    dimensions = first.attributes.dimensions
    source = first.operands[0]
    same = all(
        operand.opcode == "broadcast"
        and operand.operands[0] is source
        and operand.attributes.dimensions == dimensions
        for operand in root.operands
    )
    if not same or _dimension(root) in dimensions:
        return None
    return build.broadcast(source, shape=root.shape, dimensions=dimensions)


def _is_next(left: Instruction, right: Instruction, dim: int) -> bool:
    """Whether slice `right` starts where slice `left` of the same array ends."""
    if right.opcode != "slice" or left.operands[0] is not right.operands[0]:
        return False
    for number, (a, b) in enumerate(
        zip(left.attributes.slice, right.attributes.slice, strict=True)
    ):
        if a[2] != 1 or b[2] != 1:
            return False
        if (a[1] != b[0]) if number == dim else (a != b):
            return False
    return True


@rule(
    m.concatenate(..., where=lambda i: any(o.opcode == "slice" for o in i.operands)),
    example="""
        a = f32[3] slice(f32[9] x), slice={[1:4]}
        b = f32[2] slice(x), slice={[4:6]}
        c = f32[5] concatenate(a, b), dimensions={0}""",
)
def concatenate_slices(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """concatenate(x[a:b], x[b:c]) => x[a:c]"""
    dim = _dimension(root)
    merged: list[Instruction] = [root.operands[0]]
    for operand in root.operands[1:]:
        last = merged[-1]
        if last.opcode == "slice" and _is_next(last, operand, dim):
            box = list(last.attributes.slice)
            box[dim] = (box[dim][0], operand.attributes.slice[dim][1], 1)
            merged[-1] = build.slice(last.operands[0], slice=tuple(box))
        else:
            merged.append(operand)
    if len(merged) == len(root.operands):
        return None
    return build.concatenate(*merged, dimensions=(dim,)) if len(merged) > 1 else merged[0]


MOST_TAKEN = 8
"""Columns that are taken one by one at most: of 10,000 rows three of three took 0.44 of the time of
a gather, six of six 0.45, seven of 64 0.8, eight of 16 0.93 (AVX2, one thread, 2026-11-29)."""


def _takes_columns(gather: Instruction) -> bool:
    """Whether a gather takes a few elements of each row, at positions that are constant."""
    operand, indices = gather.operands
    given, last = gather.as_(GatherAttributes), operand.shape.rank - 1
    is_of_columns = given.start_index_map == given.collapsed_slice_dims == (last,)
    if not is_of_columns or last < 1 or given.operand_batching_dims:
        return False
    is_row = gather.shape.rank == last + 1 and given.offset_dims == tuple(range(last))
    few = indices.opcode == "constant" and 0 < math.prod(indices.shape.static_dims) <= MOST_TAKEN
    return is_row and few and given.slice_sizes[:last] == operand.shape.dims[:last]


@rule(
    m.gather(x, y, where=_takes_columns),
    example="""
        y = s32[4,1] constant({{3}, {0}, {1}, {9}})
        a = f32[4,4] gather(f32[4,5] x, y), offset_dims={0}, collapsed_slice_dims={1},
          start_index_map={1}, index_vector_dim=1, slice_sizes={4,1}""",
)
def gather_few_columns(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction | None:
    """gather(x, constant columns) => concatenate(slice(x), slice(x), ...)"""
    *rows, width = x.shape.dims
    if not isinstance(width, int):
        return None
    runs: list[list[int]] = []
    for taken in y.attributes.literal.value.ravel().tolist():
        column = min(max(taken, 0), width - 1)
        if runs and runs[-1][1] == column:
            runs[-1][1] += 1
        else:
            runs.append([column, column + 1])
    whole = tuple((0, size, 1) for size in rows)
    parts = [build.slice(x, slice=(*whole, (first, end, 1))) for first, end in runs]
    return build.concatenate(*parts, dimensions=(len(rows),))


MOST_IN_ROW = 8
"""Elements of short rows: a vector holds several of them."""


def _rearranged_rows(operand: Instruction, dim: int) -> int:
    """Return how many rows an operand has that is a few in reverse order, or one a few times.

    0 for any other operand.
    """
    if operand.opcode == "reverse":
        is_along = dimensions_of(operand) == (dim,) and operand.use_count == 1
    else:
        is_along = operand.opcode == "broadcast" and dim not in dimensions_of(operand)
    size = operand.shape.dims[dim]
    return size if is_along and isinstance(size, int) and 1 < size <= MOST_TAKEN else 0


def _joins_short_rows(concatenation: Instruction) -> bool:
    dim = _dimension(concatenation)
    row = product(concatenation.shape.dims[dim + 1 :])
    if not isinstance(row, int) or not 1 < row <= MOST_IN_ROW:
        return False
    operands = concatenation.operands
    sizes = [operand.shape.dims[dim] for operand in operands]
    has_many = any(isinstance(size, int) and size > MOST_TAKEN for size in sizes)
    return has_many and (1 in sizes or any(_rearranged_rows(operand, dim) for operand in operands))


@rule(
    m.concatenate(..., where=_joins_short_rows),
    example="""
        a = f32[4,2,3] slice(f32[4,9,3] x), slice={[0:4], [1:3], [0:3]}
        b = f32[4,2,3] reverse(a), dimensions={1}
        c = f32[4,11,3] concatenate(b, x), dimensions={1}""",
)
def concatenate_short_rows(root: Instruction, build: RuleBuilder) -> Instruction:
    """concatenate(reverse(x), y) => concatenate of the rows of x and y, as elements beside others

    Reflected and repeated borders of images with few channels are such rows, beside many. Otherwise
    a kernel would run along a row, which fills no vector: 32 images of 64x64x3 took 3 to 4 times as
    long (AVX2, one thread, 2026-11-29).
    """
    dim = _dimension(root)
    rows: list[Instruction] = []
    for operand in root.operands:
        count = _rearranged_rows(operand, dim)
        if not count:
            rows.append(operand)
        elif operand.opcode == "broadcast":
            rows += [_row_of(operand, dim, 0, build)] * count
        else:
            rows += [
                _row_of(operand.operands[0], dim, number, build)
                for number in reversed(range(count))
            ]
    flat = [build.reshape_to(row, _with_flat_rows(row, dim)) for row in rows]
    return build.reshape_to(build.concatenate(*flat, dimensions=(dim,)), root.shape.dims)


def _row_of(operand: Instruction, dim: int, number: int, build: RuleBuilder) -> Instruction:
    """Return a row of a value; a row of a slice is read from the operand of the slice."""
    box = [(0, size, 1) for size in operand.shape.dims]
    if operand.opcode == "slice":
        box = list(operand.attributes.slice)
        (operand,) = operand.operands
    first, _, step = box[dim]
    box[dim] = (first + number * step, first + number * step + 1, 1)
    return build.slice(operand, slice=tuple(box))


def _with_flat_rows(row: Instruction, dim: int) -> tuple[int | Dim, ...]:
    dims = row.shape.dims
    return (*dims[:dim], product(dims[dim:]))


@rule(
    m.get_tuple_element(m.tuple(..., name="inner")),
    example="""
        t = (f32[4], f32[3]) tuple(f32[4] x, f32[3] y)
        a = f32[3] get-tuple-element(t), index=1""",
)
def element_of_tuple(root: Instruction, inner: Instruction) -> Instruction:
    """get-tuple-element(tuple(x, y), 1) => y"""
    index: int = root.attributes.index
    return inner.operands[index]


@rule(
    m.tuple(..., where=lambda i: bool(i.operands)),
    example="""
        x = f32[4] get-tuple-element((f32[4], f32[3]) t), index=0
        y = f32[3] get-tuple-element(t), index=1
        a = (f32[4], f32[3]) tuple(x, y)""",
)
def tuple_of_elements(root: Instruction) -> Instruction | None:
    """tuple(get-tuple-element(t, 0), get-tuple-element(t, 1), ...) => t"""
    first = root.operands[0]
    if first.opcode != "get-tuple-element":
        return None
    whole = first.operands[0]
    if len(whole.shape.elements) != len(root.operands):
        return None
    rebuilt = all(
        element.opcode == "get-tuple-element"
        and element.operands[0] is whole
        and element.attributes.index == number
        for number, element in enumerate(root.operands)
    )
    return whole if rebuilt else None

# SPDX-License-Identifier: Apache-2.0
"""Slice, dynamic-slice, dynamic-update-slice, reverse: boxes cut out of arrays."""

from __future__ import annotations

from ingot.hlo.dim import Dim, never_negative, product
from ingot.hlo.dtype import greatest
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import m, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import dimensions_of, keeps_dims, x, y

SAME = (
    identity(
        "slice_identity: slice(x) => x where nothing is cut off",
        m.slice(x, where=keeps_dims),
        x,
        example="a = f32[4,5] slice(f32[4,5] x), slice={[0:4], [0:5]}",
    ),
)


@rule(
    m.slice(m.slice(x, name="inner")),
    example="""
        a = f32[12] slice(f32[40] x), slice={[2:38:3]}
        b = f32[4] slice(a), slice={[1:9:2]}""",
)
def slice_slice(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """slice(slice(x)) => slice(x)"""
    box: list[tuple[int | Dim, int | Dim, int]] = []
    for size, outer, first in zip(
        root.shape.dims, root.attributes.slice, inner.attributes.slice, strict=True
    ):
        begin = first[0] + outer[0] * first[2]
        stride = outer[2] * first[2]
        if size == 0:
            begin = limit = 0
        elif stride == 1 or never_negative(size - 1):
            limit = begin + (size - 1) * stride + 1
        else:  # Nothing may be taken: then no element is the last.
            return None
        box.append((begin, limit, stride))
    return build.slice(x, slice=tuple(box))


@rule(
    m.slice(m.broadcast(x, name="inner")),
    example="""
        a = f32[5,8] broadcast(f32[8] x), dimensions={1}
        b = f32[2,3] slice(a), slice={[1:3], [2:5]}""",
)
def slice_of_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """slice(broadcast(x)) => broadcast(slice(x))"""
    dimensions = dimensions_of(inner)
    box = tuple(root.attributes.slice[dim] for dim in dimensions)
    dims = tuple(root.shape.dims[dim] for dim in dimensions)
    cut = x if dims == x.shape.dims else build.slice(x, slice=box)
    return build.broadcast(cut, shape=root.shape, dimensions=dimensions)


@rule(
    m.slice(m.pad(x, y, name="inner")),
    example="""
        a = f32[7,9] pad(f32[4,6] x, f32[] y), padding=1_2x3_0
        b = f32[2,6] slice(a), slice={[2:4], [3:9]}""",
)
def slice_of_pad(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """slice(pad(x)) => slice(x) where only elements of x are taken"""
    box: list[tuple[int | Dim, int | Dim, int]] = []
    for bounds, (low, _, interior), size in zip(
        root.attributes.slice, inner.attributes.padding, x.shape.dims, strict=True
    ):
        begin, limit = bounds[0] - low, bounds[1] - low
        room = size - limit
        inside = isinstance(begin, int) and begin >= 0 and isinstance(room, int) and room >= 0
        if interior or not inside:
            return None
        box.append((begin, limit, bounds[2]))
    return build.slice(x, slice=tuple(box))


def _part(start: int, limit: int, parts: list[tuple[int, int]]) -> int | None:
    """Return the number of the part [begin, end) that holds [start, limit)."""
    for number, (begin, end) in enumerate(parts):
        if begin <= start and limit <= end:
            return number
    return None


def _slice_of_part(
    joined: Instruction, box: tuple[tuple[int | Dim, int | Dim, int], ...], build: RuleBuilder
) -> Instruction | None:
    """Return a slice of a concatenation as one of the operand that has all elements, if one has."""
    (dim,) = dimensions_of(joined)
    start, limit, stride = box[dim]
    parts: list[tuple[int, int]] = []
    end = 0
    for operand in joined.operands:
        size = operand.shape.dims[dim]
        if not isinstance(size, int):
            break
        parts.append((end, end + size))
        end += size
    if not isinstance(start, int) or not isinstance(limit, int):
        return None
    number = _part(start, limit, parts)
    if number is None:
        return None
    of_part = list(box)
    of_part[dim] = (start - parts[number][0], limit - parts[number][0], stride)
    return build.slice(joined.operands[number], slice=tuple(of_part))


@rule(
    m.slice(m.concatenate(..., name="inner")),
    example="""
        a = f32[4,5] concatenate(f32[4,2] x, f32[4,3] y), dimensions={1}
        b = f32[4,2] slice(a), slice={[0:4], [3:5]}""",
)
def slice_of_concatenate(
    root: Instruction, inner: Instruction, build: RuleBuilder
) -> Instruction | None:
    """slice(concatenate(x, y)) => slice(y) where only elements of y are taken"""
    return _slice_of_part(inner, root.attributes.slice, build)


def _splits_last(reshape: Instruction) -> bool:
    """Whether a reshape cuts the rows of a concatenation along its last dimension into several."""
    (joined,) = reshape.operands
    dim = joined.shape.rank - 1
    is_last = joined.opcode == "concatenate" and dimensions_of(joined) == (dim,)
    return (
        is_last
        and reshape.shape.rank > dim + 1
        and reshape.shape.dims[:dim] == joined.shape.dims[:dim]
    )


@rule(
    m.slice(m.reshape(m.concatenate(..., name="joined"), where=_splits_last)),
    example="""
        a = f32[4,15] concatenate(f32[4,6] x, f32[4,9] y), dimensions={1}
        b = f32[4,5,3] reshape(a)
        c = f32[4,2,3] slice(b), slice={[0:4], [3:5], [0:3]}""",
)
def slice_of_joined_rows(
    root: Instruction, joined: Instruction, build: RuleBuilder
) -> Instruction | None:
    """slice(reshape(concatenate(x, y))) => reshape(slice(y)) where whole rows of y alone are taken

    So borders of images with few channels do not read what the borders before them made.
    """
    (reshape,) = root.operands
    dim = joined.shape.rank - 1
    *outer, (start, limit, stride) = root.attributes.slice[: dim + 1]
    rest = reshape.shape.dims[dim + 1 :]
    row = product(rest)
    is_whole = root.shape.dims[dim + 1 :] == rest and stride == 1
    if not is_whole or not isinstance(start, int) or not isinstance(limit, int):
        return None
    if not isinstance(row, int):
        return None
    part = _slice_of_part(joined, (*outer, (start * row, limit * row, 1)), build)
    return None if part is None else build.reshape_to(part, root.shape.dims)


def _clamped(index: Instruction, size: int | Dim, whole: int | Dim) -> int | None:
    """Return the start that a constant index is clamped to, or None if it is not known."""
    value = splat_of(index)
    if value is None or size == whole:
        return 0 if size == whole else None
    if isinstance(size, int) and isinstance(whole, int):
        return min(max(int(value), 0), whole - size)
    return 0 if int(value) <= 0 else None


@rule(
    m.dynamic_slice(...),
    example="""
        i = s32[] constant(3)
        j = s32[] constant(-1)
        a = f32[2,3] dynamic-slice(f32[4,6] x, i, j), dynamic_slice_sizes={2,3}""",
)
def dynamic_slice_constant(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """dynamic-slice(x, constants) => slice(x)"""
    operand, *indices = root.operands
    box: list[tuple[int | Dim, int | Dim, int]] = []
    for index, size, whole in zip(indices, root.shape.dims, operand.shape.dims, strict=True):
        start = _clamped(index, size, whole)
        if start is None:
            return None
        box.append((start, start + size, 1))
    return build.slice(operand, slice=tuple(box))


@rule(
    m.dynamic_slice(...),
    example="""
        a = f32[6] broadcast(f32[] x), dimensions={}
        b = f32[3] dynamic-slice(a, s32[] i), dynamic_slice_sizes={3}""",
)
def dynamic_slice_of_broadcast(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """dynamic-slice(broadcast(x)) => broadcast(dynamic-slice(x)), of dimensions that x has"""
    operand, *starts = root.operands
    if operand.opcode != "broadcast":
        return None
    (value,) = operand.operands
    dimensions = dimensions_of(operand)
    sizes = tuple(root.shape.dims[dim] for dim in dimensions)
    if sizes != value.shape.dims:
        indices = (starts[dim] for dim in dimensions)
        value = build.dynamic_slice(value, *indices, dynamic_slice_sizes=sizes)
    return build.broadcast_to(value, root.shape.dims, dimensions)


@rule(
    m.dynamic_slice(...),
    example="""
        a = s32[6,20] iota(), iota_dimension=0
        b = s32[1,20] dynamic-slice(a, s32[] i, s32[] j), dynamic_slice_sizes={1,20}""",
)
def dynamic_slice_of_iota(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """dynamic-slice(iota) => broadcast(index), held inside, where one number is taken"""
    operand, *starts = root.operands
    if operand.opcode != "iota" or not operand.shape.is_static or not root.shape.dtype.is_integer:
        return None
    dim: int = operand.attributes.iota_dimension
    index, last = starts[dim], operand.shape.static_dims[dim] - 1
    if root.shape.dims[dim] != 1 or last > greatest(index.shape.dtype):
        return None
    least, most = (build.constant(bound, index.shape.dtype) for bound in (0, last))
    held = build.convert_to(build.clamp(least, index, most), root.shape.dtype)
    return build.broadcast_to(held, root.shape.dims)


@rule(
    m.dynamic_slice(...),
    example="""
        a = f32[6] dynamic-update-slice(f32[6] x, f32[2] u, s32[] i)
        b = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}""",
)
def dynamic_slice_of_update(root: Instruction) -> Instruction | None:
    """dynamic-slice(dynamic-update-slice(x, u, i), i) => u"""
    updated, *indices = root.operands
    if updated.opcode != "dynamic-update-slice":
        return None
    _, update, *starts = updated.operands
    return update if update.shape.dims == root.shape.dims and indices == starts else None


@rule(
    m.dynamic_update_slice(..., where=lambda i: i.operands[1].shape.dims == i.shape.dims),
    example="a = f32[4] dynamic-update-slice(f32[4] x, f32[4] u, s32[] i)",
)
def dynamic_update_slice_whole(root: Instruction) -> Instruction:
    """dynamic-update-slice(x, u) => u where all of x is replaced"""
    return root.operands[1]


@rule(
    m.dynamic_update_slice(...),
    example="""
        u = f32[2] dynamic-slice(f32[6] x, s32[] i), dynamic_slice_sizes={2}
        a = f32[6] dynamic-update-slice(x, u, i)""",
)
def dynamic_update_slice_of_slice(root: Instruction) -> Instruction | None:
    """dynamic-update-slice(x, dynamic-slice(x, i), i) => x"""
    operand, update, *starts = root.operands
    if update.opcode != "dynamic-slice" or update.operands[0] is not operand:
        return None
    return operand if list(update.operands[1:]) == starts else None


@rule(
    m.add(...),
    fp=Fp.SIGNED_ZERO,
    example="""
        x = f32[6] get-tuple-element((f32[6]) s), index=0
        zero = f32[] constant(0)
        zeros = f32[6] broadcast(zero), dimensions={}
        a = f32[6] dynamic-update-slice(zeros, f32[2] u, s32[] i)
        b = f32[6] add(x, a)""",
)
def add_update_of_zeros(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """x + dynamic-update-slice(0, u, i) => x updated by x[i] + u, of the state of a loop"""
    for operand, update in (root.operands, root.operands[::-1]):
        if update.opcode != "dynamic-update-slice" or update.use_count != 1:
            continue
        zeros, part, *starts = update.operands
        if splat_of(zeros) == 0 and operand.opcode == "get-tuple-element":
            sizes = part.shape.dims
            old = build.dynamic_slice(operand, *starts, dynamic_slice_sizes=sizes)
            return build.dynamic_update_slice(operand, build.add(old, part), *starts)
    return None


@rule(
    m.reverse(x),
    example="a = f32[1,4] reverse(f32[1,4] x), dimensions={0}",
)
def reverse_of_ones(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction | None:
    """reverse of a dimension of size 1, or of none => x"""
    dimensions = dimensions_of(root)
    real = tuple(dim for dim in dimensions if x.shape.dims[dim] != 1)
    if real == dimensions and real:
        return None
    return build.reverse(x, dimensions=real) if real else x


@rule(
    m.reverse(m.reverse(x, name="inner")),
    example="""
        a = f32[2,4] reverse(f32[2,4] x), dimensions={0}
        b = f32[2,4] reverse(a), dimensions={0,1}""",
)
def reverse_reverse(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """reverse(reverse(x)) => reverse of the dimensions that one of them reverses"""
    once = set(dimensions_of(root)) ^ set(dimensions_of(inner))
    return build.reverse(x, dimensions=tuple(sorted(once))) if once else x


@rule(
    m.reverse(m.broadcast(x, name="inner")),
    example="""
        a = f32[2,4] broadcast(f32[4] x), dimensions={1}
        b = f32[2,4] reverse(a), dimensions={0,1}""",
)
def reverse_of_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """reverse(broadcast(x)) => broadcast(reverse(x))"""
    dimensions = dimensions_of(inner)
    real = tuple(n for n, dim in enumerate(dimensions) if dim in dimensions_of(root))
    flipped = build.reverse(x, dimensions=real) if real else x
    return build.broadcast(flipped, shape=root.shape, dimensions=dimensions)

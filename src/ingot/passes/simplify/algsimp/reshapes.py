# SPDX-License-Identifier: Apache-2.0
"""Broadcast, reshape and transpose: composed, removed, moved where they cost less."""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.opset.indexing import is_ascending
from ingot.hlo.rewrite.pattern import m, one_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import dimensions_of, keeps_dims, x

ELEMENTWISE = opcodes(lambda row: row.has(Trait.ELEMENTWISE))


@rule(
    m.broadcast(x, where=lambda i: len(i.attributes.dimensions) == i.shape.rank),
    example="a = f32[2,3] broadcast(f32[2,3] x), dimensions={0,1}",
)
def broadcast_identity(root: Instruction, x: Instruction) -> Instruction | None:
    """broadcast(x) => x where no dimension is new and the order is kept"""
    same = root.attributes.dimensions == tuple(range(root.shape.rank))
    return x if same else None


@rule(
    m.broadcast(m.broadcast(x, name="inner")),
    example="""
        a = f32[2,3] broadcast(f32[3] x), dimensions={1}
        b = f32[2,5,3] broadcast(a), dimensions={0,2}""",
)
def broadcast_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """broadcast(broadcast(x)) => broadcast(x)"""
    outer = root.attributes.dimensions
    dimensions = tuple(outer[dim] for dim in inner.attributes.dimensions)
    return build.broadcast(x, shape=root.shape, dimensions=dimensions)


@rule(
    m.broadcast(x, where=lambda i: 1 in i.shape.dims and i.operands[0].shape.rank > 0),
    example="a = f32[2,1,3] broadcast(f32[2,3] x), dimensions={0,2}",
)
def broadcast_of_ones(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction | None:
    """broadcast(x) => reshape(x) where every new dimension has size 1"""
    dimensions = root.attributes.dimensions
    new = (size for dim, size in enumerate(root.shape.dims) if dim not in dimensions)
    if not is_ascending(dimensions) or any(size != 1 for size in new):
        return None
    return build.reshape_to(x, root.shape.dims)


def inserted_ones(before: tuple[int | Dim, ...], after: tuple[int | Dim, ...]) -> list[int] | None:
    """Return which dimensions of `after` are those of `before`, if all others have size 1."""
    dimensions: list[int] = []
    next_dim = 0
    for dim, size in enumerate(after):
        if next_dim < len(before) and before[next_dim] == size:
            dimensions.append(dim)
            next_dim += 1
        elif size != 1:
            return None
    return dimensions if next_dim == len(before) else None


@rule(
    m.broadcast(m.reshape(x)),
    example="""
        a = f32[1,3] reshape(f32[3] x)
        b = f32[2,1,3] broadcast(a), dimensions={1,2}""",
)
def broadcast_of_reshape(
    root: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """broadcast(reshape(x)) => broadcast(x) where the reshape only adds dimensions of size 1"""
    middle = root.operands[0].shape.dims
    dimensions = inserted_ones(x.shape.dims, middle)
    if dimensions is None:
        return None
    outer = root.attributes.dimensions
    return build.broadcast(x, shape=root.shape, dimensions=tuple(outer[p] for p in dimensions))


def _has_only_broadcasts(root: Instruction) -> bool:
    for operand in root.operands:
        if operand.opcode != "broadcast" and operand.shape.rank:
            return False
    return root.shape.rank > 0 and bool(root.operands)


@rule(
    one_of(ELEMENTWISE, ..., where=_has_only_broadcasts, among=("broadcast",)),
    example=(
        """
        a = f32[4] broadcast(f32[] x), dimensions={}
        b = f32[4] exponential(a)""",
        """
        a = f32[2,3] broadcast(f32[3] x), dimensions={1}
        b = f32[2,3] broadcast(f32[3] y), dimensions={1}
        c = pred[2,3] compare(a, b), direction=LT""",
        """
        y = f32[] constant(2)
        a = f32[2,3] broadcast(f32[3] x), dimensions={1}
        b = f32[2,3] broadcast(y), dimensions={}
        c = f32[2,3] multiply(a, b)""",
    ),
)
def elementwise_of_broadcasts(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """f(broadcast(x), broadcast(y)) => broadcast(f(x, y)); scalars are broadcast to x's size"""
    sources = [o.operands[0] if o.opcode == "broadcast" else o for o in root.operands]
    widest = max(range(len(sources)), key=lambda number: sources[number].shape.rank)
    wide = root.operands[widest]
    if wide.opcode != "broadcast":
        return None
    dims, dimensions = sources[widest].shape.dims, wide.attributes.dimensions
    for source, operand in zip(sources, root.operands, strict=True):
        if source.shape.rank and (
            source.shape.dims != dims or operand.attributes.dimensions != dimensions
        ):
            return None
    if dims == root.shape.dims:
        return None
    inner = [build.broadcast_to(source, dims) for source in sources]
    small = build.like(root, *inner, shape=root.shape.with_dims(dims))
    return build.broadcast(small, shape=root.shape, dimensions=dimensions)


SAME = (
    identity(
        "reshape_identity: reshape(x) => x where the dimensions stay",
        m.reshape(x, where=keeps_dims),
        x,
        example="a = f32[2,3] reshape(f32[2,3] x)",
    ),
)


@rule(
    m.reshape(m.reshape(x)),
    example="""
        a = f32[3,4] reshape(f32[2,6] x)
        b = f32[12] reshape(a)""",
)
def reshape_reshape(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction:
    """reshape(reshape(x)) => reshape(x)"""
    return build.reshape_to(x, root.shape.dims)


@rule(
    m.reshape(m.broadcast(x, where=lambda i: i.operands[0].shape.rank == 0)),
    example="""
        a = f32[2,6] broadcast(f32[] x), dimensions={}
        b = f32[12] reshape(a)""",
)
def reshape_of_splat(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction:
    """reshape(broadcast(scalar)) => broadcast(scalar)"""
    return build.broadcast_to(x, root.shape.dims)


def _matched_ones(
    before: tuple[int | Dim, ...], after: tuple[int | Dim, ...]
) -> dict[int, int] | None:
    """Return dimension of `before` -> of `after`, if they differ in dimensions of size 1 only."""
    non_unit_before = [dim for dim, size in enumerate(before) if size != 1]
    non_unit_after = [dim for dim, size in enumerate(after) if size != 1]
    if [before[p] for p in non_unit_before] != [after[p] for p in non_unit_after]:
        return None
    return dict(zip(non_unit_before, non_unit_after, strict=True))


@rule(
    m.reshape(m.broadcast(x, name="inner")),
    example="""
        a = f32[1,2,3] broadcast(f32[3] x), dimensions={2}
        b = f32[2,3] reshape(a)""",
)
def reshape_of_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reshape(broadcast(x)) => broadcast(x) where the reshape only moves dimensions of size 1"""
    moved = _matched_ones(inner.shape.dims, root.shape.dims)
    if moved is None:
        return None
    kept = [n for n, dim in enumerate(inner.attributes.dimensions) if dim in moved]
    given = build.reshape_to(x, tuple(x.shape.dims[n] for n in kept))
    dimensions = tuple(moved[inner.attributes.dimensions[n]] for n in kept)
    return build.broadcast(given, shape=root.shape, dimensions=dimensions)


@rule(
    m.reshape(m.iota(name="inner")),
    example="""
        a = s32[1,4] iota(), iota_dimension=1
        b = s32[4] reshape(a)""",
)
def reshape_of_iota(
    root: Instruction, inner: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reshape(iota) => iota where the reshape only moves dimensions of size 1"""
    moved = _matched_ones(inner.shape.dims, root.shape.dims)
    dim = inner.attributes.iota_dimension
    if moved is None or dim not in moved:
        return None
    return build.iota(shape=root.shape, iota_dimension=moved[dim])


def _iota_size(iota: Instruction) -> int | Dim:
    """Return the size of the dimension along which an iota counts."""
    dim: int = iota.attributes.iota_dimension
    return iota.shape.dims[dim]


@rule(
    m.iota(where=lambda i: _iota_size(i) == 1),
    example="a = s32[1,4] iota(), iota_dimension=0",
)
def iota_of_one(root: Instruction, build: RuleBuilder) -> Instruction:
    """iota along a dimension of size 1 => 0"""
    return build.full(0, root.shape)


@rule(
    m.transpose(x),
    example=(
        "a = f32[2,3] transpose(f32[2,3] x), dimensions={0,1}",
        "a = f32[1,2,3] transpose(f32[2,1,3] x), dimensions={1,0,2}",
    ),
)
def transpose_of_ones(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction | None:
    """transpose(x) => reshape(x) where only dimensions of size 1 move"""
    real = [dim for dim in root.attributes.dimensions if x.shape.dims[dim] != 1]
    return build.reshape_to(x, root.shape.dims) if real == sorted(real) else None


@rule(
    m.transpose(m.transpose(x, name="inner")),
    example="""
        a = f32[3,4,2] transpose(f32[2,3,4] x), dimensions={1,2,0}
        b = f32[3,2,4] transpose(a), dimensions={0,2,1}""",
)
def transpose_transpose(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """transpose(transpose(x)) => transpose(x)"""
    order = tuple(inner.attributes.dimensions[dim] for dim in root.attributes.dimensions)
    return build.transpose(x, dimensions=order)


@rule(
    m.transpose(m.broadcast(x, name="inner")),
    example="""
        a = f32[2,3] broadcast(f32[3] x), dimensions={1}
        b = f32[3,2] transpose(a), dimensions={1,0}""",
)
def transpose_of_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction:
    """transpose(broadcast(x)) => broadcast(transpose(x)), its dimension numbers in order"""
    order = dimensions_of(root)
    along = tuple(map(order.index, dimensions_of(inner)))
    return build.broadcast_in_order(x, root.shape.dims, along)


@rule(
    m.transpose(m.iota(name="inner")),
    example="""
        a = s32[2,4] iota(), iota_dimension=1
        b = s32[4,2] transpose(a), dimensions={1,0}""",
)
def transpose_of_iota(root: Instruction, inner: Instruction, build: RuleBuilder) -> Instruction:
    """transpose(iota) => iota"""
    dim = root.attributes.dimensions.index(inner.attributes.iota_dimension)
    return build.iota(shape=root.shape, iota_dimension=dim)


@rule(
    m.transpose(m.reshape(x, name="inner")),
    example="""
        a = f32[2,1,3] reshape(f32[2,3] x)
        b = f32[1,3,2] transpose(a), dimensions={1,2,0}""",
)
def transpose_of_reshape(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """transpose(reshape(x)) => reshape(transpose(x)) where the reshape only adds ones"""
    dimensions = inserted_ones(x.shape.dims, inner.shape.dims)
    if dimensions is None:
        return None
    order = tuple(dimensions.index(p) for p in root.attributes.dimensions if p in dimensions)
    return build.reshape_to(build.transpose(x, dimensions=order), root.shape.dims)


def _moves(operand: Instruction) -> bool:
    is_splat = operand.opcode == "broadcast" and not operand.operands[0].shape.rank
    return operand.opcode == "reshape" or is_splat


@rule(
    one_of(ELEMENTWISE, ..., where=lambda i: all(map(_moves, i.operands)), among=("reshape",)),
    example=(
        """
        a = f32[6] reshape(f32[2,3] x)
        b = f32[6] reshape(f32[2,3] y)
        c = pred[6] compare(a, b), direction=LT""",
        """
        a = f32[6] reshape(f32[2,3] x)
        b = f32[6] broadcast(f32[] y), dimensions={}
        c = f32[6] divide(a, b)""",
    ),
)
def elementwise_of_reshapes(root: Instruction, build: RuleBuilder) -> Instruction | None:
    """f(reshape(x), reshape(y)) => reshape(f(x, y)): f stands next to what makes x and y"""
    sources = [operand.operands[0] for operand in root.operands]
    moved = [source for source in sources if source.shape.rank]
    if not moved or any(source.shape.dims != moved[0].shape.dims for source in moved):
        return None
    dims = moved[0].shape.dims
    inner = [build.broadcast_to(source, dims) for source in sources]
    result = build.like(root, *inner, shape=root.shape.with_dims(dims))
    return build.reshape_to(result, root.shape.dims)

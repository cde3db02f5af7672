# SPDX-License-Identifier: Apache-2.0
"""Reshape and transpose: composed, removed, moved where they cost less."""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import m, one_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.broadcasts import ELEMENTWISE, inserted_ones
from ingot.passes.simplify.algsimp.helpers import dimensions_of, keeps_dims, x

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
    dimensions = [order.index(dim) for dim in dimensions_of(inner)]
    turns = tuple(sorted(range(len(dimensions)), key=lambda number: dimensions[number]))
    source = x if turns == tuple(range(len(turns))) else build.transpose(x, dimensions=turns)
    return build.broadcast(source, shape=root.shape, dimensions=tuple(sorted(dimensions)))


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
    return operand.opcode == "reshape" or _is_splat(operand)


def _is_splat(operand: Instruction) -> bool:
    return operand.opcode == "broadcast" and not operand.operands[0].shape.rank


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

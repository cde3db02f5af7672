# SPDX-License-Identifier: Apache-2.0
"""Broadcast: composed, moved behind elementwise ops so that they work on fewer elements."""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.opset.indexing import is_ascending
from ingot.hlo.rewrite.pattern import m, one_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import x

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

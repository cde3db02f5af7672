# SPDX-License-Identifier: Apache-2.0
"""Reduce, sort and dot over dimensions that are trivial, repeated or merely permuted."""

from __future__ import annotations

from math import prod

from ingot.analysis.common_factors import common_factors
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import capture, m
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import dimensions_of, x
from ingot.semantics.reducers import is_identity, reducer_opcode

start = capture("start")
_IDEMPOTENT = ops_with(Trait.IDEMPOTENT)


def _reduce_again(
    build: RuleBuilder,
    source: Instruction,
    x: Instruction,
    start: Instruction,
    dimensions: tuple[int, ...],
) -> Instruction:
    """Return the reduction of `source` applied to other operands and dimensions."""
    reducer = source.attributes.to_apply
    return build.reduce(x, start, dimensions=dimensions, to_apply=reducer)


def _may_be_of_ones(reduce: Instruction) -> bool:
    dims = reduce.operands[0].shape.dims
    return 1 in dims or (bool(dims) and not dimensions_of(reduce))


@rule(
    m.reduce(x, start, where=_may_be_of_ones),
    fp=Fp.SIGNED_ZERO,
    example=(
        """
        zero = f32[] constant(0)
        a = f32[4] reduce(f32[4,1] x, zero), dimensions={1}, to_apply=add_f32""",
        "a = f32[4] reduce(f32[4,1] x, f32[] y), dimensions={1}, to_apply=max_f32",
    ),
)
def reduce_of_ones(
    root: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reduce(x, init) over dimensions of size 1 => init op reshape(x)"""
    opcode = reducer_opcode(root.attributes.to_apply)
    if not opcode or any(x.shape.dims[dim] != 1 for dim in dimensions_of(root)):
        return None
    if x.shape.dtype is not root.shape.dtype:
        return None
    value = build.reshape_to(x, root.shape.dims)
    if is_identity(start, opcode):
        return value
    return build.emit(opcode, build.broadcast_to(start, root.shape.dims), value)


@rule(
    m.reduce(m.reduce(x, capture("inner_start"), name="inner", once=True), start),
    fp=Fp.CONTRACT,
    example="""
        zero = f32[] constant(0)
        a = f32[4,5] reduce(f32[4,3,5] x, zero), dimensions={1}, to_apply=add_f32
        b = f32[5] reduce(a, f32[] y), dimensions={0}, to_apply=add_f32""",
)
def reduce_reduce(
    root: Instruction, inner: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reduce(reduce(x)) => reduce(x) over the dimensions of both"""
    opcode = reducer_opcode(root.attributes.to_apply)
    same = opcode and opcode == reducer_opcode(inner.attributes.to_apply)
    x, inner_start = inner.operands
    if not same or not is_identity(inner_start, opcode):
        return None
    first = dimensions_of(inner)
    unreduced = [dim for dim in range(x.shape.rank) if dim not in first]
    second = tuple(unreduced[dim] for dim in dimensions_of(root))
    return _reduce_again(build, root, x, start, tuple(sorted((*first, *second))))


@rule(
    m.reduce(m.transpose(x, name="inner"), start),
    fp=Fp.CONTRACT,
    example="""
        zero = f32[] constant(0)
        a = f32[5,3,4] transpose(f32[4,3,5] x), dimensions={2,1,0}
        b = f32[3] reduce(a, zero), dimensions={0,2}, to_apply=add_f32""",
)
def reduce_of_transpose(
    root: Instruction, inner: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reduce(transpose(x)) => reduce(x) where the dimensions that stay keep their order"""
    order = dimensions_of(inner)
    reduced = dimensions_of(root)
    unreduced = [dim for number, dim in enumerate(order) if number not in reduced]
    if unreduced != sorted(unreduced) or not reducer_opcode(root.attributes.to_apply):
        return None
    return _reduce_again(build, root, x, start, tuple(sorted(order[n] for n in reduced)))


@rule(
    m.reduce(m.reshape(x), start),
    fp=Fp.CONTRACT,
    example="""
        zero = f32[] constant(0)
        a = f32[4,15] reshape(f32[4,3,5] x)
        b = f32[4] reduce(a, zero), dimensions={1}, to_apply=add_f32""",
)
def reduce_of_reshape(
    root: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """reduce(reshape(x)) => reduce(x) where a reshape changes only dimensions that are folded"""
    reduced, folded = dimensions_of(root), list[int]()
    dims = root.operands[0].shape.dims
    for (left, left_end), (right, right_end) in common_factors(x.shape.dims, dims):
        is_folded = [dim in reduced for dim in range(right, right_end)]
        if all(is_folded):
            folded += range(left, left_end)
        elif any(is_folded) or x.shape.dims[left:left_end] != dims[right:right_end]:
            return None
    if not reducer_opcode(root.attributes.to_apply):
        return None
    return _reduce_again(build, root, x, start, tuple(folded))


@rule(
    m.reduce(m.negate(x, once=True), start),
    fp=Fp.SIGNED_ZERO,
    example="""
        zero = f32[] constant(0)
        a = f32[4,5] negate(f32[4,5] x)
        b = f32[5] reduce(a, zero), dimensions={0}, to_apply=add_f32""",
)
def reduce_of_negate(
    root: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """sum(-x) => -sum(x): rounding does not look at the sign"""
    if reducer_opcode(root.attributes.to_apply) != "add" or not is_identity(start, "add"):
        return None
    return build.negate(_reduce_again(build, root, x, start, dimensions_of(root)))


@rule(
    m.reduce(m.broadcast(x, name="inner"), start),
    example="""
        a = f32[3,4,5] broadcast(f32[4] x), dimensions={1}
        b = f32[5] reduce(a, f32[] y), dimensions={0,1}, to_apply=max_f32""",
)
def reduce_idempotent_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """max-reduce(broadcast(x)) => broadcast(max-reduce(x)), likewise min, and, or"""
    if reducer_opcode(root.attributes.to_apply) not in _IDEMPOTENT:
        return None
    repeated = _repeats(root, inner)
    if repeated is None or repeated == 0:
        return None
    return _reduce_source(root, inner, x, start, build)


@rule(
    m.reduce(m.broadcast(x, name="inner"), start),
    fp=Fp.REASSOCIATE,
    example="""
        y = s32[] constant(0)
        a = s32[3,4,5] broadcast(s32[4] x), dimensions={1}
        b = s32[5] reduce(a, y), dimensions={0,1}, to_apply=add_s32""",
)
def reduce_sum_broadcast(
    root: Instruction, inner: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction | None:
    """sum(broadcast(x)) => broadcast(sum(x)) * how often it is repeated"""
    if reducer_opcode(root.attributes.to_apply) != "add" or not is_identity(start, "add"):
        return None
    repeated = _repeats(root, inner)
    if repeated is None or repeated < 2 or root.shape.dtype.kind.value == "pred":
        return None
    total = _reduce_source(root, inner, x, start, build)
    bits = root.shape.dtype.bits if root.shape.dtype.is_integer else 62
    count = repeated % (1 << bits)
    if root.shape.dtype.is_signed and count >= 1 << (bits - 1):
        count -= 1 << bits
    return build.multiply(total, build.full(count, root.shape))


def _repeats(root: Instruction, inner: Instruction) -> int | None:
    """Return how many equal elements one sum has: the size of the reduced dimensions that are new.

    None if there is no new one among them, or the number is not known.
    """
    own = dimensions_of(inner)
    new = [dim for dim in dimensions_of(root) if dim not in own]
    sizes = [inner.shape.dims[dim] for dim in new]
    static = [size for size in sizes if isinstance(size, int)]
    return prod(static) if new and len(static) == len(sizes) else None


def _reduce_source(
    root: Instruction, inner: Instruction, x: Instruction, start: Instruction, build: RuleBuilder
) -> Instruction:
    """Return `x` reduced over its own reduced dimensions, broadcast to the result."""
    own, reduced = dimensions_of(inner), dimensions_of(root)
    dimensions = tuple(number for number, dim in enumerate(own) if dim in reduced)
    unreduced = [dim for dim in range(inner.shape.rank) if dim not in reduced]
    target = tuple(unreduced.index(dim) for dim in own if dim not in reduced)
    total = _reduce_again(build, root, x, start, dimensions)
    return build.broadcast_to(total, root.shape.dims, target)


@rule(
    m.sort(x, where=lambda i: i.operands[0].shape.dims[dimensions_of(i)[0]] in (0, 1)),
    example="a = f32[4,1] sort(f32[4,1] x), dimensions={1}, to_apply=less_f32",
)
def sort_one(x: Instruction) -> Instruction:
    """sort(x) => x along a dimension of at most one element"""
    return x

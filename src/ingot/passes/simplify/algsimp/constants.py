# SPDX-License-Identifier: Apache-2.0
"""Canonical operands for constants, and constants that meet: folding that needs no evaluator."""

from __future__ import annotations

import numpy as np

from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import compute, is_integer, is_real, is_twice, x, y, z

_COMMUTATIVE = opcodes(lambda row: row.has(Trait.COMMUTATIVE) and row.has(Trait.ELEMENTWISE))
_SUM_OR_PRODUCT = opcodes(lambda row: row.has(Trait.ASSOCIATIVE) and not row.has(Trait.EXACT))
_LATTICE_OR_BITS = opcodes(lambda row: row.has(Trait.ASSOCIATIVE) and row.has(Trait.EXACT))
_LARGE = 1 << 20  # elements; larger constants are not searched for being regular


@rule(one_of(_COMMUTATIVE, const(name="c"), x, ordered=True))
def constant_to_the_right(
    root: Instruction, c: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """c + x => x + c, so that other rules and common subexpressions see one form"""
    return None if splat_of(x) is not None else build.like(root, x, c)


@rule(m.subtract(x, const(name="c"), where=is_real))
def subtract_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x - c => x + (-c)"""
    return build.add(x, build.full(compute("negate", c), c.shape))


@rule(
    one_of(
        _SUM_OR_PRODUCT,
        one_of(_SUM_OR_PRODUCT, x, const(name="a")),
        const(name="b"),
        where=is_twice,
    ),
    fp=Fp.REASSOCIATE,
)
def constants_meet(
    root: Instruction, x: Instruction, a: Instruction, b: Instruction, build: RuleBuilder
) -> Instruction:
    """(x + a) + b => x + (a + b), likewise for *"""
    return build.like(root, x, build.full(compute(root.opcode, a, b), b.shape))


@rule(
    one_of(
        _LATTICE_OR_BITS,
        one_of(_LATTICE_OR_BITS, x, const(name="a")),
        const(name="b"),
        where=is_twice,
    ),
    fp=Fp.SIGNED_ZERO,
)
def lattice_constants_meet(
    root: Instruction, x: Instruction, a: Instruction, b: Instruction, build: RuleBuilder
) -> Instruction:
    """max(max(x, a), b) => max(x, max(a, b)), likewise for min, and, or, xor"""
    return build.like(root, x, build.full(compute(root.opcode, a, b), b.shape))


@rule(
    one_of(("add", "subtract"), m.multiply(x, z, once=True), m.multiply(y, z, once=True)),
    fp=Fp.REASSOCIATE,
)
def distribute(
    root: Instruction, x: Instruction, y: Instruction, z: Instruction, build: RuleBuilder
) -> Instruction:
    """x * z + y * z => (x + y) * z, likewise for -"""
    return build.multiply(build.like(root, x, y), z)


@rule(m.add(m.subtract(x, y), y, where=is_integer))
def add_back(x: Instruction) -> Instruction:
    """(x - y) + y => x on integers"""
    return x


@rule(m.subtract(m.add(x, y), y, where=is_integer))
def subtract_back(x: Instruction) -> Instruction:
    """(x + y) - y => x on integers"""
    return x


@rule(
    m.constant(name="c", where=lambda i: i.shape.rank > 0 and i.shape.is_static),
    example="ROOT c = f32[4] constant({2, 2, 2, 2})",
)
def splat_constant(c: Instruction, build: RuleBuilder) -> Instruction | None:
    """[v, v, ...] => broadcast(v): no memory, and other rules see the value"""
    array = c.attributes.literal.value
    if array.size == 0 or array.reshape(-1)[0].tobytes() != array.reshape(-1)[-1].tobytes():
        return None
    if not c.attributes.literal.is_splat:
        return None
    return build.full(c.attributes.literal.scalar, c.shape)


@rule(
    m.constant(name="c", where=lambda i: i.shape.rank == 1 and is_integer(i)),
    example="ROOT c = s32[4] constant({0, 1, 2, 3})",
)
def iota_constant(c: Instruction, build: RuleBuilder) -> Instruction | None:
    """[0, 1, 2, ...] => iota"""
    array: Array = c.attributes.literal.value
    if not 2 <= array.size <= _LARGE or array[0] != 0 or array[1] != 1:
        return None
    if not np.array_equal(array.astype(np.int64), np.arange(array.size)):
        return None
    return build.iota(shape=c.shape, iota_dimension=0)

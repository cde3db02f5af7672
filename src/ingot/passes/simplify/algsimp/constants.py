# SPDX-License-Identifier: Apache-2.0
"""Canonical operands for constants, and constants that meet: folding that needs no evaluator."""

from __future__ import annotations

import numpy as np

from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import Op, const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import (
    approximate,
    compute,
    is_integer,
    is_real,
    is_twice,
    x,
    y,
    z,
)

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


def _meet(opcodes: tuple[str, ...]) -> Op:
    """Return the pattern of an op on a constant and the same op on another constant."""
    first = one_of(opcodes, x, const(name="a"))
    return one_of(opcodes, first, const(name="b"), where=is_twice)


@rule(_meet(_SUM_OR_PRODUCT), fp=Fp.REASSOCIATE)
def constants_meet(
    root: Instruction, x: Instruction, a: Instruction, b: Instruction, build: RuleBuilder
) -> Instruction:
    """(x + a) + b => x + (a + b), likewise for *"""
    return build.like(root, x, build.full(compute(root.opcode, a, b), b.shape))


@rule(_meet(_LATTICE_OR_BITS), fp=Fp.SIGNED_ZERO)
def lattice_constants_meet(
    root: Instruction, x: Instruction, a: Instruction, b: Instruction, build: RuleBuilder
) -> Instruction:
    """max(max(x, a), b) => max(x, max(a, b)), likewise for min, and, or, xor"""
    return build.like(root, x, build.full(compute(root.opcode, a, b), b.shape))


_SUMS = ("add", "subtract")

SUMS = (
    approximate(
        "distribute: x * z + y * z => (x + y) * z, likewise for -",
        one_of(_SUMS, m.multiply(x, z, once=True), m.multiply(y, z, once=True)),
        m.multiply(one_of(_SUMS, x, y), z),
    ),
    identity("add_back: (x - y) + y => x", m.add(m.subtract(x, y), y, where=is_integer), x),
    identity("subtract_back: (x + y) - y => x", m.subtract(m.add(x, y), y, where=is_integer), x),
)


@rule(
    m.constant(name="c", where=lambda i: i.shape.rank > 0 and i.shape.is_static),
    example="c = f32[4] constant({2, 2, 2, 2})",
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
    example="c = s32[4] constant({0, 1, 2, 3})",
)
def iota_constant(c: Instruction, build: RuleBuilder) -> Instruction | None:
    """[0, 1, 2, ...] => iota"""
    array: Array = c.attributes.literal.value
    if not 2 <= array.size <= _LARGE or array[0] != 0 or array[1] != 1:
        return None
    if not np.array_equal(array.astype(np.int64), np.arange(array.size)):
        return None
    return build.iota(shape=c.shape, iota_dimension=0)

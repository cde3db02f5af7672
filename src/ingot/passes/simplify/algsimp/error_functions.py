# SPDX-License-Identifier: Apache-2.0
"""Error functions: XLA's formula of erfc is recognised, and those of normal distributions joined.

StableHLO without CHLO (of JAX's `gelu` on its way to a plugin, say) has erfc of f32 as the formula
of XLA's `ErfcImpl32`: 1 - x T(x^2) below 1, and beyond exp(-x^2) / |x| times one of two
polynomials of 1 / x^2. It takes 75 operations, and loses the digits that the exponential loses of
x^2; the op takes about 50, and loses none.

Source: xla/hlo/builder/lib/math.cc, stablehlo/transforms/ChloLegalizeToStablehlo.cpp, after Cephes.
"""

from __future__ import annotations

import numpy as np

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import Op, Pattern, capture, const, m
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import x, y

# Highest power first.
NEAR_ZERO = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
    1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
BELOW_TWO = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
    6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
    5.638259427386472e-1,
)  # fmt: skip
ABOVE_TWO = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
    -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip
LOWEST = -88.7228394
"""Where -x^2 is less, the formula gives zero."""

p = capture("p")
_size, _square = capture("size"), capture("square")


def _single(value: float) -> Pattern:
    return const(float(np.float32(value)))


def _polynomial(variable: Pattern, row: tuple[float, ...]) -> Pattern:
    """Return the pattern of Horner's scheme, with constants to the right as rules leave them."""
    found: Pattern = m.multiply(variable, _single(row[0]), ordered=True, once=True)
    for item in row[1:-1]:
        total = m.add(found, _single(item), ordered=True, once=True)
        found = m.multiply(total, variable, ordered=True, once=True)
    return m.add(found, _single(row[-1]), ordered=True, once=True)


def _formula() -> Op:
    near = m.multiply(x, _polynomial(_square, NEAR_ZERO), ordered=True, once=True)
    inverse, falling = m.divide(const(1), _square), m.negate(_square)
    far = m.select(
        m.compare(_size, const(2), direction="LT"),
        _polynomial(inverse, BELOW_TWO),
        _polynomial(inverse, ABOVE_TWO),
        once=True,
    )
    exponential = m.exponential(falling, once=True)
    scale = m.multiply(exponential, m.divide(const(1), _size), ordered=True, once=True)
    tail = m.select(
        m.compare(falling, _single(LOWEST), direction="LT"),
        const(0),
        m.multiply(scale, far, ordered=True, once=True),
        name="tail",
    )
    side = m.select(
        m.compare(x, const(0), direction="LT"),
        m.subtract(const(2), tail, once=True),
        capture("tail"),
        once=True,
    )
    is_near = m.compare(_size, const(1), direction="LT")
    return m.select(is_near, m.subtract(const(1), near, once=True), side)


def _example() -> str:
    lines = ["x = f32[4] parameter(0)"]

    def add(name: str, text: str, element: str = "f32") -> str:
        lines.append(f"{name} = {element}[4] {text}")
        return name

    def number(value: float) -> str:
        name = f"c{len(lines)}"
        lines.append(f"{name} = f32[] constant({float(np.float32(value))!r})")
        return add(f"{name}.all", f"broadcast({name}), dimensions={{}}")

    def polynomial(variable: str, row: tuple[float, ...]) -> str:
        factors = (variable, number(row[0]))
        for item in row[1:]:
            product = add(f"m{len(lines)}", f"multiply({', '.join(factors)})")
            factors = (add(f"s{len(lines)}", f"add({product}, {number(item)})"), variable)
        return factors[0]

    def less(name: str, left: str, bound: float) -> str:
        return add(name, f"compare({left}, {number(bound)}), direction=LT", "pred")

    add("size", "abs(x)")
    add("square", "multiply(x, x)")
    add("falling", "negate(square)")
    add("inverse", f"divide({number(1)}, square)")
    add("near", f"multiply(x, {polynomial('square', NEAR_ZERO)})")
    add("nearer", f"subtract({number(1)}, near)")
    below, above = (polynomial("inverse", row) for row in (BELOW_TWO, ABOVE_TWO))
    add("far", f"select({less('small', 'size', 2)}, {below}, {above})")
    add("exp", "exponential(falling)")
    add("over", f"divide({number(1)}, size)")
    add("scale", "multiply(exp, over)")
    add("scaled", "multiply(scale, far)")
    add("tail", f"select({less('none', 'falling', LOWEST)}, {number(0)}, scaled)")
    add("rest", f"subtract({number(2)}, tail)")
    add("side", f"select({less('left', 'x', 0)}, rest, tail)")
    lines.append(f"ROOT r = f32[4] select({less('middle', 'size', 1)}, nearer, side)")
    return "\n".join(lines)


@rule(_formula(), fp=Fp.CONTRACT, example=_example())
def erfc_of_xla(
    x: Instruction,
    size: Instruction,
    square: Instruction,
    build: RuleBuilder,
) -> Instruction | None:
    """XLA's formula of erfc(x) in f32 => erfc(x)"""
    is_size = size is x if x.opcode == "abs" else size.opcode == "abs" and size.operands == (x,)
    is_square = square.opcode == "multiply" and square.operands == (x, x)
    return build.erfc(x) if is_size and is_square else None


_erfc = capture("erfc", where=lambda i: i.opcode == "erfc" and i.use_count == 2)


@rule(m.select(p, m.subtract(const(2), _erfc, once=True), _erfc), fp=Fp.CONTRACT, example="""
        p = pred[4] parameter(0)
        x = f32[4] parameter(1)
        e = f32[4] erfc(x)
        two = f32[] constant(2)
        b = f32[4] broadcast(two), dimensions={}
        s = f32[4] subtract(b, e)
        ROOT r = f32[4] select(p, s, e)""")  # fmt: skip
def erfc_of_either_sign(p: Instruction, erfc: Instruction, build: RuleBuilder) -> Instruction:
    """select(p, 2 - erfc(x), erfc(x)) => erfc(select(p, -x, x))"""
    (x,) = erfc.operands
    return build.erfc(build.select(p, build.negate(x), x))


@rule(m.select(p, m.add(m.erf(x, once=True), const(1), once=True), m.erfc(y, once=True)),
      fp=Fp.CONTRACT)  # fmt: skip
def erf_beside_erfc(
    p: Instruction, x: Instruction, y: Instruction, build: RuleBuilder
) -> Instruction:
    """select(p, 1 + erf(x), erfc(y)) => erfc(select(p, -x, y)): normal distributions are so"""
    return build.erfc(build.select(p, build.negate(x), y))

"""Products of complex matrices as one product of real ones.

With the parts of `a` side by side, `[ar ai]`, and those of `b` as the matrix `[[br bi] [-bi br]]`,
one real product gives the parts of `a b` side by side. It does the work of four products of parts,
but it is one: compiled once, of plain matrices. The smaller operand is the one written twice.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.passes.expand.complex_expander.forms import Pair

SMALLEST = 1 << 15
"""Multiplications of complex numbers from which writing the operands anew pays."""


def is_large(dot: Instruction) -> bool:
    """Whether a dot of two complex operands is better computed as one real product."""
    given: DotAttributes = dot.attributes
    left, right = (operand.shape for operand in dot.operands)
    steps = product(left.dims[place] for place in given.lhs_contracting_dims)
    total = product(dot.shape.dims) * steps
    has_dims = given.lhs_contracting_dims and (
        given.rhs_free_dims(right.rank)
        if _is_smaller(right.size, left.size)
        else given.lhs_free_dims(left.rank)
    )
    return bool(has_dims) and (isinstance(total, Dim) or total >= SMALLEST)


def product_of_parts(build: Builder, dot: Instruction, a: Pair, b: Pair) -> Pair:
    """Return both parts of `dot(a, b)`, which `is_large`, computed by one real dot."""
    given: DotAttributes = dot.attributes
    left, right = (operand.shape for operand in dot.operands)
    lhs_free, rhs_free = given.lhs_free_dims(left.rank), given.rhs_free_dims(right.rank)
    lhs_sum, rhs_sum = given.lhs_contracting_dims[-1], given.rhs_contracting_dims[-1]
    if _is_smaller(right.size, left.size):
        operands = _row(build, a, lhs_sum), _matrix(build, b, rhs_sum, rhs_free[-1])
        place = dot.shape.rank - 1
    else:
        operands = _matrix(build, a, lhs_sum, lhs_free[-1]), _row(build, b, rhs_sum)
        place = len(given.lhs_batch_dims) + len(lhs_free) - 1
    dims = dot.shape.dims
    size = dims[place]
    shape = a.re.shape.with_dims((*dims[:place], size + size, *dims[place + 1 :]))
    joined = build.emit("dot", *operands, shape=shape, **_attributes(given))
    return Pair(_part(build, joined, place, 0, size), _part(build, joined, place, size, size))


def _is_smaller(one: int | Dim, other: int | Dim) -> bool:
    """Whether `one` is known to be no larger, or nothing is known."""
    return not (isinstance(one, int) and isinstance(other, int)) or one <= other


def _attributes(given: DotAttributes) -> dict[str, Any]:
    return {field.name: getattr(given, field.name) for field in fields(given)}


def _row(build: Builder, value: Pair, contracted: int) -> Instruction:
    return build.concatenate(value.re, value.im, dimensions=(contracted,))


def _matrix(build: Builder, value: Pair, contracted: int, free: int) -> Instruction:
    columns = _row(build, Pair(value.re, build.negate(value.im)), contracted)
    others = _row(build, Pair(value.im, value.re), contracted)
    return build.concatenate(columns, others, dimensions=(free,))


def _part(
    build: Builder, joined: Instruction, place: int, start: int | Dim, size: int | Dim
) -> Instruction:
    box = tuple(
        (start, start + size, 1) if n == place else (0, extent, 1)
        for n, extent in enumerate(joined.shape.dims)
    )
    return build.slice(joined, slice=box)

"""Products of complex matrices as products of real ones.

A complex matrix `c64[m,k]` lies in memory as a real one, `f32[m,2k]`, both parts of a number beside
each other. So does the product, where the right operand is written with each row twice: as it is,
and times i.

    [ar ai] [[br bi] [-bi br]]  =  [ar br - ai bi,  ar bi + ai br]

Left operand and result are no more than `bitcast`s, and the product is a plain one, whose code the
library has. It does the work of four products of parts.
"""

from __future__ import annotations

from dataclasses import fields, replace

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.passes.expand.complex_expander.forms import Pair, part_type

Dims = tuple[int | Dim, ...]

SMALLEST = 1 << 15
"""Multiplications of complex numbers from which writing the right operand anew pays."""

FEWEST_ROWS, FEWEST_COLUMNS = 8, 4
"""Rows and columns of the product, likewise."""


def is_large(dot: Instruction) -> bool:
    """Whether a dot of two complex operands is better computed as one real product."""
    given: DotAttributes = dot.attributes
    left, right = (operand.shape for operand in dot.operands)
    rows = product(left.dims[place] for place in given.lhs_free_dims(left.rank))
    columns = product(right.dims[place] for place in given.rhs_free_dims(right.rank))
    steps = product(left.dims[place] for place in given.lhs_contracting_dims)
    return (
        bool(given.lhs_contracting_dims)
        and _is_at_least(rows, FEWEST_ROWS)
        and _is_at_least(columns, FEWEST_COLUMNS)
        and _is_at_least(product(dot.shape.dims) * steps, SMALLEST)
    )


def _is_at_least(size: int | Dim, least: int) -> bool:
    """Whether a size is large, or nothing is known."""
    return isinstance(size, Dim) or size >= least


def one_product(build: Builder, dot: Instruction, left: Instruction, right: Pair) -> Instruction:
    """Return `dot(left, right)`, which `is_large`, computed by one real dot."""
    given: DotAttributes = dot.attributes
    left_free = given.lhs_free_dims(left.shape.rank)
    left = _transposed(
        build, left, (*given.lhs_batch_dims, *left_free, *given.lhs_contracting_dims)
    )
    order = (
        *given.rhs_batch_dims,
        *given.rhs_contracting_dims,
        *given.rhs_free_dims(right.re.shape.rank),
    )
    right = Pair(*(_transposed(build, part, order) for part in right))
    batch, sums = len(given.lhs_batch_dims), len(given.lhs_contracting_dims)
    rows, dims = batch + len(left_free), right.re.shape.dims
    written = rows_twice(build, right, batch + sums)
    attributes = replace(
        given,
        lhs_batch_dims=tuple(range(batch)),
        rhs_batch_dims=tuple(range(batch)),
        lhs_contracting_dims=tuple(range(rows, rows + sums)),
        rhs_contracting_dims=tuple(range(batch, batch + sums)),
    )
    first = _pairs_last(dims[batch : batch + sums])
    joined = build.emit(
        "dot",
        _as_real(build, left, (*left.shape.dims[:rows], *first)),
        _as_real(build, written, (*dims[:batch], *first, *_pairs_last(dims[batch + sums :]))),
        **{field.name: getattr(attributes, field.name) for field in fields(attributes)},
    )
    return build.emit("bitcast", joined, shape=dot.shape)


def _transposed(build: Builder, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return build.transpose(value, dimensions=order)


def rows_twice(build: Builder, value: Pair, place: int) -> Instruction:
    """Return `value`, and `i value`, along a new dimension `place`."""
    dims = value.re.shape.dims
    spread = (*dims[:place], 2, *dims[place:])
    places = tuple(number + (number >= place) for number in range(len(dims)))
    re, im = (build.broadcast_to(part, spread, places) for part in value)
    number = build.iota(
        shape=value.re.shape.with_dims(spread).with_dtype(S32), iota_dimension=place
    )
    is_first = build.compare(number, build.full(0, number.shape), direction="EQ")
    return build.complex(
        build.select(is_first, re, build.negate(im)), build.select(is_first, im, re)
    )


def _pairs_last(dims: Dims) -> Dims:
    """Return the dimensions with both parts of each number beside each other."""
    return (*dims[:-1], dims[-1] * 2)


def _as_real(build: Builder, value: Instruction, dims: Dims) -> Instruction:
    element = part_type(value.shape.dtype)
    return build.emit("bitcast", value, shape=value.shape.with_dims(dims).with_dtype(element))

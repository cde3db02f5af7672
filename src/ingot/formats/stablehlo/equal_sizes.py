# SPDX-License-Identifier: Apache-2.0
"""Sizes that an op requires to be equal: two such `?` are one size.

StableHLO's `?` means "some size". Where an op requires two sizes to be equal (elementwise ops all,
dots those that are summed) and their forms differ, one symbol is defined as the other's value:
`Equal` carries that to `parse`, which converts again with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.opdef import OpDef, Trait
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.reduction import SelectAndScatterAttributes
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

Size = int | Dim
Shapes = tuple[Shape, ...]
Pairs = Iterator[tuple[Size, Size]]


class Equal(Exception):  # noqa: N818 - no error: it asks for another conversion
    """Two sizes are equal: `symbol` is `size`."""

    def __init__(self, symbol: str, size: Size) -> None:
        super().__init__(f"{symbol} = {size}")
        self.symbol = symbol
        self.size = size


def equate(left: Size, right: Size) -> None:
    """Raise `Equal` when two sizes of different form can be made one by naming a symbol."""
    if left == right:
        return
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Dim) and one.is_symbol and one.text not in dim.symbols_of((other,)):
            raise Equal(one.text, other)
    _solve_for_symbol(left - right)


def _solve_for_symbol(difference: Size) -> None:
    """Raise `Equal` for a symbol that `difference = 0` gives, as 2n - 2m or n - 3 do."""
    if isinstance(difference, int):
        return
    common = math.gcd(*(factor for _, factor in difference.terms))
    for atoms, factor in difference.terms:
        symbol = Dim.symbol(atoms[0].text) if len(atoms) == 1 else None
        if symbol is None or not symbol.is_symbol or abs(factor) != common:
            continue
        rest = (symbol * factor - difference) * (factor // common)
        if symbol.text not in dim.symbols_of((rest,)):
            raise Equal(symbol.text, dim.floordiv(rest, common))


def equate_operands(definition: OpDef, attributes: Any, shapes: Shapes) -> None:
    """Make sizes of operands equal as the op requires."""
    if definition.has(Trait.ELEMENTWISE):
        rule: Callable[[Any, Shapes], Pairs] | None = _alike
    else:
        rule = _RULES.get(definition.name)
    for left, right in rule(attributes, shapes) if rule is not None else ():
        equate(left, right)


def _alike(attributes: Any, shapes: Shapes) -> Pairs:
    """All operands that are no scalars."""
    ranked = [shape for shape in shapes if shape.dims]
    for shape in ranked[1:]:
        yield from zip(ranked[0].dims, shape.dims, strict=False)


def _inputs(attributes: Any, shapes: Shapes) -> Pairs:
    """The first half: the others are initial values."""
    return _alike(attributes, shapes[: len(shapes) // 2])


def _concatenate(attributes: Any, shapes: Shapes) -> Pairs:
    (axis,) = attributes.dimensions
    pairs = (zip(shapes[0].dims, shape.dims, strict=False) for shape in shapes[1:])
    return chain.from_iterable(
        (pair for dimension, pair in enumerate(both) if dimension != axis) for both in pairs
    )


def _dot(attributes: DotAttributes, shapes: Shapes) -> Pairs:
    lhs, rhs = shapes
    lefts = (*attributes.lhs_batch_dims, *attributes.lhs_contracting_dims)
    rights = (*attributes.rhs_batch_dims, *attributes.rhs_contracting_dims)
    for left, right in zip(lefts, rights, strict=False):
        yield lhs.dims[left], rhs.dims[right]


def _features(attributes: Any, shapes: Shapes) -> Pairs:
    """Each vector has an element per feature; the gradient is of the operand's shape."""
    operand, *others = shapes
    for shape in others:
        if shape.rank == 1:
            yield operand.dims[attributes.feature_index], shape.dims[0]
        else:
            yield from zip(operand.dims, shape.dims, strict=False)


def _sources(attributes: SelectAndScatterAttributes, shapes: Shapes) -> Pairs:
    """Where windows are one element, there is one source per element."""
    operand, source, _ = shapes
    plain = WindowDimension(1)
    for dimension, window in enumerate(attributes.window):
        if window == plain:
            yield operand.dims[dimension], source.dims[dimension]


def _square(attributes: Any, shapes: Shapes) -> Pairs:
    yield shapes[0].dims[-2], shapes[0].dims[-1]


def _solve(attributes: Any, shapes: Shapes) -> Pairs:
    a, b = shapes
    yield from _square(attributes, shapes)
    yield a.dims[-1], b.dims[-2 if attributes.left_side else -1]
    yield from zip(a.dims[:-2], b.dims[:-2], strict=False)


_RULES: dict[str, Callable[[Any, Shapes], Pairs]] = {
    "batch-norm-grad": _features,
    "batch-norm-inference": _features,
    "batch-norm-training": _features,
    "cholesky": _square,
    "concatenate": _concatenate,
    "dot": _dot,
    "map": _alike,
    "reduce": _inputs,
    "reduce-window": _inputs,
    "select-and-scatter": _sources,
    "sort": _alike,
    "triangular-solve": _solve,
}

# SPDX-License-Identifier: Apache-2.0
"""The rules by which complex numbers are split into parts; one per opcode.

A rule gets the `Site` of an instruction with complex operands or result and returns the split value
of the result. Ops without a rule are borders: they keep their complex operands and results.

Some products of complex matrices stay complex, as the library has drivers for them. A driver packs
the right operand, so a product must be large enough for packing to pay. Others become four products
of parts.

Invariant: a product that stays has a driver: its sizes are known, its operands and result are of
one type, and fusion leaves its operands in memory (`passes.fusion.legality`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import REAL_OF
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import set_called
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.shape import Shape
from ingot.passes.expand.complex_expander.calls import Versions
from ingot.passes.expand.complex_expander.functions import (
    BINARY,
    COMPARISONS,
    TO_REAL,
    UNARY,
    clamp,
)
from ingot.passes.expand.complex_expander.numbers import Complex, Formula, Real
from ingot.passes.expand.complex_expander.split_values import (
    Group,
    Pair,
    SplitValue,
    SplitValues,
    from_flat,
    split_shape,
)
from ingot.support.records import record, replace

SMALLEST = 1 << 15
"""Complex multiplications from which packing the right operand pays."""

FEWEST_ROWS, FEWEST_COLUMNS = 8, 4
"""Rows and columns of the product, likewise."""


def stays_complex(instruction: Instruction) -> bool:
    """Whether an op on complex numbers is a product that the library runs."""
    if instruction.opcode != "dot" or not instruction.shape.dtype.is_complex:
        return False
    given = instruction.as_(DotAttributes)
    left, right = (operand.shape for operand in instruction.operands)
    if not left.dtype is right.dtype is instruction.shape.dtype:
        return False
    rows = product(left.dims[dim] for dim in given.lhs_free_dims(left.rank))
    columns = product(right.dims[dim] for dim in given.rhs_free_dims(right.rank))
    steps = product(left.dims[dim] for dim in given.lhs_contracting_dims)
    total = product(instruction.shape.dims) * steps
    if isinstance(total, Dim) or not given.lhs_contracting_dims:
        return False
    return (
        _is_at_least(rows, FEWEST_ROWS)
        and _is_at_least(columns, FEWEST_COLUMNS)
        and (total >= SMALLEST)
    )


def _is_at_least(size: int | Dim, least: int) -> bool:
    return isinstance(size, int) and size >= least


MOVES = ops_with(Trait.SHAPING, also=("copy", "dynamic-update-slice", "gather", "select"))
"""Ops that act on each part separately and unchanged."""


@record
class Site:
    """An instruction being split."""

    instruction: Instruction
    splits: SplitValues
    versions: Versions

    @property
    def build(self) -> Builder:
        """A builder on behalf of the instruction."""
        return Builder(self.instruction.computation, self.instruction.metadata)

    @property
    def part_shape(self) -> Shape:
        """The shape of a part of the result."""
        shape = self.instruction.shape
        return shape.with_dtype(REAL_OF[shape.dtype])

    def split(self, number: int) -> SplitValue:
        """Return the split value of an operand."""
        return self.splits.of(self.instruction.operands[number])

    def parts(self, number: int) -> Pair:
        """Return the parts of a complex operand."""
        return self.splits.parts(self.split(number))

    def numbers(self) -> list[Complex]:
        """Return the operands as complex numbers to calculate with."""
        build = Formula(self.build)
        parts = (self.splits.parts(self.splits.of(each)) for each in self.instruction.operands)
        return [Complex(*(Real(build, part) for part in pair)) for pair in parts]

    def like(
        self, operands: Sequence[Instruction], shape: Shape, attributes: Any = None
    ) -> Instruction:
        """Add the instruction's op on other operands, with another shape."""
        source = self.instruction
        made = source.computation.copy_of(source, operands)
        made.run_after(source.control_predecessors)
        made.computation.set_shape(made, shape)
        if attributes is not None:
            made.computation.set_attributes(made, attributes)
        return made


Rule = Callable[[Site], SplitValue]


def _pair(value: Complex) -> Pair:
    return Pair(value.re.value, value.im.value)


# ---- each part on its own


def _each_part(site: Site) -> SplitValue:
    parts: list[Instruction] = []
    for number in (0, 1):
        operands = [
            site.splits.parts(site.splits.of(operand))[number]
            if operand.shape.dtype.is_complex
            else operand
            for operand in site.instruction.operands
        ]
        parts.append(site.like(operands, site.part_shape))
    return Pair(*parts)


def _iota(site: Site) -> SplitValue:
    shape = site.part_shape
    return Pair(site.like((), shape), site.build.full(0, shape))


def _convert(site: Site) -> SplitValue:
    build, target = site.build, site.instruction.shape
    (operand,) = site.instruction.operands
    if not operand.shape.dtype.is_complex:
        re = build.convert_to(operand, REAL_OF[target.dtype])
        return Pair(re, build.full(0, re.shape))
    if target.dtype.is_complex:
        parts = site.parts(0)
        return Pair(*(build.convert_to(part, REAL_OF[target.dtype]) for part in parts))
    return build.convert_to(site.parts(0).re, target.dtype)


def _bitcast_convert(site: Site) -> SplitValue:
    """Complex numbers of another width: parts are adjacent in memory."""
    operand, target, build = site.instruction.operands[0].shape, site.instruction.shape, site.build
    if operand.dtype is target.dtype:
        return site.split(0)
    lines = (*operand.dims, 1)
    parts = [build.reshape_to(part, lines) for part in site.parts(0)]
    value = build.concatenate(*parts, dimensions=(operand.rank,))
    pairs = Shape.array(REAL_OF[target.dtype], (*target.dims, 2))
    value = build.reinterpret(value, pairs)
    sides = (build.slice_along(value, target.rank, n, n + 1) for n in range(2))
    return Pair(*(build.reshape_to(side, target.dims) for side in sides))


# ---- elementwise functions


_FUNCTIONS: Mapping[str, Callable[..., Complex]] = {**UNARY, **BINARY}


def _function(site: Site) -> SplitValue:
    return _pair(_FUNCTIONS[site.instruction.opcode](*site.numbers()))


def _to_real(site: Site) -> SplitValue:
    return TO_REAL[site.instruction.opcode](*site.numbers()).value


def _compare(site: Site) -> SplitValue:
    function = COMPARISONS[site.instruction.attributes.direction]
    return function(*site.numbers()).value


def _clamp(site: Site) -> SplitValue:
    build, dims = Formula(site.build), site.instruction.shape.dims
    numbers: list[Complex] = []
    for number in range(3):
        parts = (build.broadcast_to(p, dims) for p in site.parts(number))
        numbers.append(Complex(*(Real(build, part) for part in parts)))
    return _pair(clamp(*numbers))


# ---- contractions


def _contraction(site: Site) -> SplitValue:
    """Four real products: three would do, but differ from the naive sum where parts cancel."""
    left, right = site.instruction.operands
    if stays_complex(site.instruction):
        wholes = [site.splits.whole(site.split(number)) for number in (0, 1)]
        return site.like(wholes, site.instruction.shape)

    def product(one: Instruction, other: Instruction) -> Instruction:
        return site.like((one, other), site.part_shape)

    if not left.shape.dtype.is_complex:
        return Pair(*(product(left, part) for part in site.parts(1)))
    a = site.parts(0)
    if not right.shape.dtype.is_complex:
        return Pair(*(product(part, right) for part in a))
    b, build = site.parts(1), site.build
    return Pair(
        build.subtract(product(a.re, b.re), product(a.im, b.im)),
        build.add(product(a.re, b.im), product(a.im, b.re)),
    )


# ---- ops with computations on elements


def _leaves(site: Site, operands: Sequence[Instruction]) -> list[Instruction]:
    return [leaf for operand in operands for leaf in site.splits.flat(site.splits.of(operand))]


def _folded(site: Site) -> SplitValue:
    """Split reduce and reduce-window; see `_combined`."""
    operands = site.instruction.operands
    count = len(operands) // 2
    return _combined(site, _leaves(site, operands[:count]), [], _leaves(site, operands[count:]))


def _scatter(site: Site) -> SplitValue:
    operands = site.instruction.operands
    count = len(operands) // 2
    inputs, updates = _leaves(site, operands[:count]), _leaves(site, operands[count + 1 :])
    return _combined(site, inputs, [operands[count]], updates)


def _combined(
    site: Site, inputs: list[Instruction], between: list[Instruction], others: list[Instruction]
) -> SplitValue:
    """Split an op that joins `inputs` and `others`: one op per leaf if its computation lets us."""
    attributes = site.instruction.attributes
    reducer = site.versions.flat(attributes.to_apply)
    singles = site.versions.separated(attributes.to_apply)
    dims = site.instruction.shape.leaves()[0][1].dims
    shapes = [Shape.array(result.shape.dtype, dims) for result in reducer.root.operands]
    if singles is None:
        operands = (*inputs, *between, *others)
        made = site.like(
            operands, Shape.tuple(tuple(shapes)), replace(attributes, to_apply=reducer)
        )
        results = site.build.elements_of(made)
    else:
        results = [
            site.like((one, *between, other), shape, replace(attributes, to_apply=single))
            for one, other, shape, single in zip(inputs, others, shapes, singles, strict=True)
        ]
    return from_flat(iter(results), site.instruction.shape)


def _sort(site: Site) -> SplitValue:
    attributes = site.instruction.attributes
    operands = _leaves(site, site.instruction.operands)
    comparator = site.versions.comparator(attributes.to_apply)
    shape = Shape.tuple(tuple(operand.shape for operand in operands))
    made = site.like(operands, shape, replace(attributes, to_apply=comparator))
    return from_flat(iter(site.build.elements_of(made)), site.instruction.shape)


def _map(site: Site) -> SplitValue:
    """Split a map: it has one result only, so there is one map for each part."""
    attributes, shape = site.instruction.attributes, site.instruction.shape
    operands = _leaves(site, site.instruction.operands)

    def part(number: int, of: Shape) -> Instruction:
        mapped = site.versions.mapped(attributes.to_apply, number)
        return site.like(operands, of, replace(attributes, to_apply=mapped))

    if not shape.dtype.is_complex:
        return part(0, shape)
    return Pair(part(0, site.part_shape), part(1, site.part_shape))


# ---- control flow, tuples


def _control(site: Site) -> SplitValue:
    """Split an op that runs computations on its operands, or passes the first one on."""
    old, splits = site.instruction, site.splits
    made = site.like([splits.nested(splits.of(o)) for o in old.operands], split_shape(old.shape))
    set_called(made, [site.versions.nested(called) for called in old.called_computations])
    old.computation.transfer_control_deps(old, made)
    splits.superseded.add(old)
    return splits.from_nested(made, old.shape)


def _tuple(site: Site) -> SplitValue:
    elements: list[SplitValue] = [site.splits.of(operand) for operand in site.instruction.operands]
    return Group(tuple(elements))


def _element(site: Site) -> SplitValue:
    split = site.split(0)
    if isinstance(split, Instruction):
        return site.instruction
    index: int = site.instruction.attributes.index
    return site.splits.elements(split).elements[index]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(TO_REAL, _to_real),
    "add": _each_part,
    "add-dependency": _control,
    "bitcast-convert": _bitcast_convert,
    "call": _control,
    "clamp": _clamp,
    "compare": _compare,
    "complex": lambda site: Pair(*site.instruction.operands),
    "conditional": _control,
    "convert": _convert,
    "convolution": _contraction,
    "dot": _contraction,
    "get-dimension-size": lambda site: site.like((site.parts(0).re,), site.instruction.shape),
    "get-tuple-element": _element,
    "iota": _iota,
    "map": _map,
    "negate": _each_part,
    "opt-barrier": _control,
    "reduce": _folded,
    "reduce-window": _folded,
    "scatter": _scatter,
    "set-dimension-size": _each_part,
    "sort": _sort,
    "subtract": _each_part,
    "tuple": _tuple,
    "while": _control,
}


def rule_of(opcode: str) -> Rule | None:
    """Return the rule of an op on complex numbers; None if the op keeps them whole."""
    return _each_part if opcode in MOVES else RULES.get(opcode)

# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops: result element i depends on element i of each operand.

Source: StableHLO specification, XLA operation semantics. Element type constraints are the rows of
`_UNARY` and `_BINARY`; the shapes of all operands are equal.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ingot.hlo.dtype import COMPLEX_OF, PRED, REAL_OF, DType, Kind
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, label_prefix, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "elementwise"
_FLOAT = frozenset({Kind.FLOAT})
_COMPLEX = frozenset({Kind.COMPLEX})
_INT = frozenset({Kind.SIGNED, Kind.UNSIGNED})
_SIGNED = frozenset({Kind.SIGNED})
_PRED = frozenset({Kind.PRED})
_ANY = _FLOAT | _COMPLEX | _INT | _PRED
_NUMBER = _FLOAT | _COMPLEX | _INT
_BITS = _INT | _PRED

_E, _C, _A, _I, _X, _L, _R, _N = (
    Trait.ELEMENTWISE,
    Trait.COMMUTATIVE,
    Trait.ASSOCIATIVE,
    Trait.IDEMPOTENT,
    Trait.EXPENSIVE,
    Trait.LONG_LATENCY,
    Trait.EXACT,
    Trait.NO_ARITHMETIC,
)


SWAPPED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
"""Direction of a comparison -> that of its operands exchanged."""

INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
"""Direction of a comparison -> that of its negation; of floats, if none is NaN."""

HOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt,
    "GE": operator.ge,
}  # fmt: skip
"""Direction of a comparison -> whether it holds, of numbers or arrays."""


@record
class CompareAttributes:
    """Attributes of `compare`: EQ NE GE GT LE LT; type FLOAT TOTALORDER SIGNED UNSIGNED or none."""

    direction: str = attribute(Codec.NAME)
    type: str = attribute(Codec.NAME, "")


@record
class AccuracyAttributes:
    """Attributes of transcendental ops: XLA's `result_accuracy`, kept as text."""

    result_accuracy: str = attribute(Codec.NAME, "")


@record
class ReducePrecisionAttributes:
    """Attributes of `reduce-precision`."""

    exponent_bits: int = attribute(Codec.INT)
    mantissa_bits: int = attribute(Codec.INT)


# Shapes are inferred several times for each instruction: messages are made only when needed.


def _same_dims(view: OpView) -> tuple[Shape, ...]:
    first = view.operands[0]
    for other in view.operands:
        if other.dims != first.dims:
            message = f"{view.opcode} takes operands of one shape, got {first} and {other}"
            number = "c2" if view.opcode == "compare" else "c1"
            require(False, f"{label_prefix(view.opcode)}_{number}", message)
    return view.operands


def _kinds(view: OpView, allowed: frozenset[Kind], element: DType) -> None:
    if element.kind not in allowed:
        message = f"{view.opcode} does not take element type {element}"
        require(False, f"{label_prefix(view.opcode)}_i1", message)


def _unary(allowed: frozenset[Kind], result: DType | None = None, real: bool = False):
    def infer(view: OpView) -> Shape:
        (operand,) = _same_dims(view)
        _kinds(view, allowed, operand.dtype)
        if result is not None:
            return operand.with_dtype(result)
        element = REAL_OF.get(operand.dtype) if real else None
        return operand if element is None else operand.with_dtype(element)

    return infer


def _binary(allowed: frozenset[Kind]):
    def infer(view: OpView) -> Shape:
        left, right = _same_dims(view)
        _kinds(view, allowed, left.dtype)
        if left.dtype is not right.dtype:
            message = f"{view.opcode} takes operands of one element type, got {left} and {right}"
            require(False, f"{label_prefix(view.opcode)}_c1", message)
        return left

    return infer


# name, kinds, traits, what it computes
_UNARY = (
    ("abs", _NUMBER, {_I, _R}, "|x|; the real magnitude of complex numbers"),
    ("cbrt", _FLOAT, {_X}, "cube root"),
    ("ceil", _FLOAT, {_I}, "least integer >= x"),
    ("count-leading-zeros", _INT, set[Trait](), "leading zero bits"),
    ("erf", _FLOAT, {_X}, "error function"),
    ("erfc", _FLOAT, {_X}, "1 - erf(x), accurate where it is small; Ingot's own"),
    ("floor", _FLOAT, {_I}, "greatest integer <= x"),
    ("negate", _NUMBER, {_R}, "-x"),
    ("not", _BITS, {_R}, "bitwise (logical for pred) complement"),
    ("popcnt", _INT, set[Trait](), "one bits"),
    ("round-nearest-afz", _FLOAT, {_I}, "nearest integer, halves away from zero"),
    ("round-nearest-even", _FLOAT, {_I}, "nearest integer, halves to even"),
    ("sign", _NUMBER, {_I, _R}, "-1, 0 or 1; NaN and signed zero pass through"),
)
_TRANSCENDENTAL = (
    ("cosine", {_X}, "cos x"),
    ("exponential", {_X}, "e to the x"),
    ("exponential-minus-one", {_X}, "e to the x minus 1, accurate near 0"),
    ("log", {_X}, "natural logarithm"),
    ("log-plus-one", {_X}, "log(1 + x), accurate near 0"),
    ("logistic", {_X}, "1 / (1 + exp(-x))"),
    ("rsqrt", {_L}, "1 / sqrt(x)"),
    ("sine", {_X}, "sin x"),
    ("sqrt", {_L}, "square root"),
    ("tan", {_X}, "tangent"),
    ("tanh", {_X}, "hyperbolic tangent"),
    ("acos", {_X}, "inverse cosine"),
    ("acosh", {_X}, "inverse hyperbolic cosine"),
    ("asin", {_X}, "inverse sine"),
    ("asinh", {_X}, "inverse hyperbolic sine"),
    ("atanh", {_X}, "inverse hyperbolic tangent"),
    ("cosh", {_X}, "hyperbolic cosine"),
    ("sinh", {_X}, "hyperbolic sine"),
)
_BINARY = (
    ("add", _ANY, {_C, _A}, "x + y; pred: or"),
    ("and", _BITS, {_C, _A, _I, _R}, "bitwise and"),
    ("atan2", _FLOAT | _COMPLEX, {_X}, "angle of the point (y, x)"),
    ("divide", _NUMBER, {_L}, "x / y; integers truncate, x/0 = -1, min/-1 = min"),
    ("maximum", _ANY, {_C, _A, _I, _R}, "greater; NaN if either is"),
    ("minimum", _ANY, {_C, _A, _I, _R}, "smaller; NaN if either is"),
    ("mulhi", _INT, {_C}, "high half of the product"),
    ("multiply", _ANY, {_C, _A}, "x * y; pred: and"),
    ("or", _BITS, {_C, _A, _I, _R}, "bitwise or"),
    ("power", _NUMBER, {_X}, "x to the y"),
    ("remainder", _NUMBER - _COMPLEX, {_L}, "remainder with the sign of x; x%0 = x"),
    ("shift-left", _INT, set[Trait](), "x << y; 0 when y is out of range"),
    ("shift-right-arithmetic", _INT, set[Trait](), "x >> y with sign; sign when y is out of range"),
    ("shift-right-logical", _INT, set[Trait](), "x >> y with zeros; 0 when y is out of range"),
    ("subtract", _NUMBER, set[Trait](), "x - y"),
    ("xor", _BITS, {_C, _A, _R}, "bitwise exclusive or"),
)

for _name, _allowed, _traits, _doc in _UNARY:
    define(
        _name,
        family=FAMILY,
        arity=1,
        infer=_unary(_allowed, real=_name == "abs"),
        traits=_traits | {_E},
        doc=_doc,
        results=("c1", "c2") if _name == "abs" else "c1",
    )
for _name, _traits, _doc in _TRANSCENDENTAL:
    define(
        _name,
        family=FAMILY,
        arity=1,
        infer=_unary(_FLOAT | _COMPLEX),
        attributes=AccuracyAttributes,
        traits=_traits | {_E},
        doc=_doc,
    )
for _name, _allowed, _traits, _doc in _BINARY:
    define(_name, family=FAMILY, arity=2, infer=_binary(_allowed), traits=_traits | {_E}, doc=_doc)

define("is-finite", family=FAMILY, arity=1, infer=_unary(_FLOAT, PRED), traits={_E},
       results=("c1", "o1"), doc="whether x is neither NaN nor infinite")  # fmt: skip
define("real", family=FAMILY, arity=1, infer=_unary(_FLOAT | _COMPLEX, real=True), traits={_E},
       results=("c1", "c2"), doc="real part")  # fmt: skip
define("imag", family=FAMILY, arity=1, infer=_unary(_FLOAT | _COMPLEX, real=True), traits={_E},
       results=("c1", "c2"), doc="imaginary part")  # fmt: skip


def _infer_complex(view: OpView) -> Shape:
    left, right = _same_dims(view)
    require(left.dtype is right.dtype, "complex_c1", "complex takes operands of one element type")
    require(left.dtype in COMPLEX_OF, "complex_i1", f"complex does not take {left.dtype}")
    return left.with_dtype(COMPLEX_OF[left.dtype])


def _infer_compare(view: OpView) -> Shape:
    left, right = _same_dims(view)
    if left.dtype is not right.dtype:
        require(
            False,
            "compare_c1",
            f"compare takes operands of one element type, got {left} and {right}",
        )
    directions = ("EQ", "NE", "GE", "GT", "LE", "LT")
    direction = view.attributes.direction
    require(direction in directions, "compare_i3", f"compare direction {direction} is not known")
    given, fitting = view.attributes.type, _COMPARISONS[left.dtype.kind]
    if given and given not in fitting:
        message = f"a compare of {left} is of type {' or '.join(fitting)}, not {given}"
        require(False, "compare_c3", message)
    return left.with_dtype(PRED)


_COMPARISONS = {
    Kind.FLOAT: ("FLOAT", "TOTALORDER"),
    Kind.COMPLEX: ("FLOAT",),
    Kind.SIGNED: ("SIGNED",),
    Kind.UNSIGNED: ("UNSIGNED",),
    Kind.PRED: ("UNSIGNED",),
}


def _infer_select(view: OpView) -> Shape:
    predicate, on_true, on_false = view.operands
    if predicate.dtype is not PRED:
        require(False, "select_i1", f"select takes a pred first, got {predicate}")
    if not on_true.compatible(on_false):
        require(
            False,
            "select_c2",
            f"select takes two values of one shape, got {on_true} and {on_false}",
        )
    if predicate.dims and predicate.dims != on_true.dims:
        require(False, "select_c1", f"select predicate {predicate} does not fit {on_true}")
    return on_true


def _infer_clamp(view: OpView) -> Shape:
    low, operand, high = view.operands
    for bound, label in ((low, "clamp_c1"), (high, "clamp_c2")):
        require(
            not bound.dims or bound.dims == operand.dims,
            label,
            f"clamp bound {bound} is neither a scalar nor like {operand}",
        )
        require(
            bound.dtype is operand.dtype,
            "clamp_c3",
            f"clamp bound {bound} has another element type than {operand}",
        )
    return operand


def _infer_convert(view: OpView) -> Shape:
    given = view.given()
    (operand,) = view.operands
    require(operand.dims == given.dims, "convert_c1", f"convert of {operand} cannot give {given}")
    require(given.is_array, "convert_o1", f"convert of {operand} cannot give {given}")
    return given


def _infer_stochastic(view: OpView) -> Shape:
    given = view.given()
    operand, random = _same_dims(view)
    fits = operand.dtype.is_float and random.dtype.kind is Kind.UNSIGNED
    require(fits, "stochastic_convert_i1", f"stochastic-convert of {operand} with {random}")
    same = operand.dtype.bits == random.dtype.bits
    require(same, "stochastic_convert_c2", f"{operand} takes u{operand.dtype.bits}, not {random}")
    fits = given.dims == operand.dims and given.is_array
    require(fits, "stochastic_convert_c1", f"stochastic-convert of {operand} cannot give {given}")
    return given


def _infer_same(view: OpView) -> Shape:
    return view.operands[0]


def _infer_map_dims(view: OpView) -> Shape:
    (operand,) = view.operands
    require(operand.dtype.is_float, "reduce_precision_i1", "reduce-precision takes floats")
    require(
        view.attributes.exponent_bits >= 1, "reduce_precision_c2", "exponent_bits is less than 1"
    )
    require(
        view.attributes.mantissa_bits >= 0, "reduce_precision_c3", "mantissa_bits is less than 0"
    )
    return operand


define("complex", family=FAMILY, arity=2, infer=_infer_complex, traits={_E},
       results=("c2", "c3"), doc="complex number of real and imaginary part")  # fmt: skip
define("compare", family=FAMILY, arity=2, infer=_infer_compare, attributes=CompareAttributes,
       results=("c2", "o1"), traits={_E},
       doc="comparison; IEEE by default, TOTALORDER by type")  # fmt: skip
define("select", family=FAMILY, arity=3, infer=_infer_select, traits={_E, _R, _N},
       results="c2",
       doc="second operand where the first is true, else the third")  # fmt: skip
define("clamp", family=FAMILY, arity=3, infer=_infer_clamp, traits={_E, _R},
       results="c4",
       doc="operand held between low and high")  # fmt: skip
define("convert", family=FAMILY, arity=1, infer=_infer_convert,
       traits={_E, _R, _N, Trait.NEEDS_SHAPE}, doc="to another element type")  # fmt: skip
define("stochastic-convert", family=FAMILY, arity=2, infer=_infer_stochastic,
       traits={_E, _N, Trait.NEEDS_SHAPE},
       doc="to another element type, up or down with the odds of the distance")  # fmt: skip
define("reduce-precision", family=FAMILY, arity=1, infer=_infer_map_dims,
       attributes=ReducePrecisionAttributes, traits={_E, _I},
       doc="rounded to a narrower float format, kept in the same type")  # fmt: skip
define("copy", family=FAMILY, arity=1, infer=_infer_same, traits={_E, _I, _R, _N},
       takes_arrays=False, doc="the same value in its own buffer")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Vector math: HLO's elementwise functions as LLVM IR for f32 and f64, any lane count.

Callers look a function up in `MATH` by HLO opcode and call it with the builder and the operands
(f16 and bf16 operands are widened first, `math.half`). No libm is called. Each row states the
error bound in ulp that the tests hold, for every input, denormals and specials included.

* `called`: math functions as subroutines that take and return vectors in registers;
* `error_function`: erf and erfc;
* `inverse`: atan2, atan, asin, acos;
* `minifloat`: conversion between f32 and the floats of 8 and 4 bits, by integer arithmetic on
  vectors;
* `power`: power, cbrt, sqrt, rsqrt;
* `remainder`: the exact float remainder with the dividend's sign (C's fmod, HLO's `remainder`);
* `rounding`: floor, ceil, round-nearest-even, round-nearest-afz: exact, one rounding mode each;
* `saturating`: floats to integers, held within the integers' range; NaN gives 0;
* `half`: conversion between f32 and the 16-bit floats, by integer arithmetic where the CPU has
  none;
* `logarithm`: log, log1p, asinh, acosh, atanh;
* `trigonometric`: sin, cos, tan, with a reduction that is right for every argument;
* `exponential`: exp, expm1, logistic, tanh, sinh, cosh;
* `coefficients`: polynomial coefficients of the math functions, lowest power first, as data;
* `emitter`: the vocabulary of the math functions: float arithmetic over one type, exact sums and
  products.

Invariant: a function's bits depend on its operand alone, not on the lane count. With and without
FMA the last bit may differ.

Example:
    >>> from ingot.llvm.builder import ModuleBuilder
    >>> from ingot.llvm.types import F32, vector
    >>> f = ModuleBuilder("m").function("f", vector(F32, 16), [("x", vector(F32, 16))])
    >>> MATH["exponential"](f, f.params[0]).type
    Type(<16 x float>)
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.llvm.builder import FunctionBuilder, Subroutine
from ingot.llvm.math import (
    called,
    error_function,
    exponential,
    inverse,
    logarithm,
    power,
    rounding,
    trigonometric,
)
from ingot.llvm.math.emitter import MathEmitter
from ingot.llvm.math.remainder import remainder
from ingot.llvm.types import F32, F64, Type
from ingot.llvm.values import Value
from ingot.support.diagnostics import InternalError
from ingot.support.records import record

__all__ = ["CIRCLE", "MATH", "MathFunction", "circle"]

Formula = Callable[..., Value]
BOTH, NEITHER = (F32, F64), ()


@record
class MathFunction:
    """One function: its formula over `MathEmitter`, its arity, its error bounds.

    `in_double`: the formula of f32 operands where it is computed in f64 and rounded, which costs
    less than to carry rounding errors along; the f64 formula, or a shorter one.
    `called`: the element types for which it is a subroutine (`math.called`): those whose formula is
    so long that a call costs little in comparison, and that LLVM compiles slowly.
    """

    name: str
    formula: Formula
    ulp_f32: float
    ulp_f64: float
    arity: int = 1
    in_double: Formula | None = None
    called: tuple[Type, ...] = BOTH

    def __call__(self, f: FunctionBuilder, *args: Value, fma: bool = True) -> Value:
        """Emit the function; `fma` says whether the target has a fused multiply-add."""
        type = args[0].type
        if type.element not in (F32, F64) or len(args) != self.arity:
            raise InternalError(f"{self.name} of {', '.join(arg.type.text for arg in args)}")
        if type.element in self.called and called.has_calls(f):
            return called.call(f, lambda type: self.subroutine(type, fma), args)[0]
        return self.in_place(f, *args, fma=fma)[0]

    def subroutine(self, type: Type, fma: bool) -> Subroutine:
        """Return the function as a subroutine on values of `type`."""
        return called.subroutine(self.name, self.in_place, (type,) * self.arity, fma)

    def in_place(self, f: FunctionBuilder, *args: Value, fma: bool) -> tuple[Value]:
        """Emit the formula."""
        type = args[0].type
        if self.in_double is None or type.element is F64:
            return (self.formula(MathEmitter(f, type, fma), *args),)
        double = type.with_element(F64)
        widened = [f.fpext(arg, double) for arg in args]
        return (f.fptrunc(self.in_double(MathEmitter(f, double, fma), *widened), type),)


_FUNCTIONS = (
    MathFunction("exponential", exponential.exponential, 1.0, 1.1),
    MathFunction("exponential-minus-one", exponential.exponential_minus_one, 1.2, 1.2),
    MathFunction("logistic", exponential.logistic, 1.6, 1.6),
    MathFunction("tanh", exponential.tanh, 1.5, 2.0),
    MathFunction("log", logarithm.log, 0.9, 0.9),
    MathFunction("log-plus-one", logarithm.log_plus_one, 0.9, 0.9),
    MathFunction("sine", trigonometric.sine, 1.7, 0.9),
    MathFunction("cosine", trigonometric.cosine, 1.7, 0.9),
    MathFunction("tan", trigonometric.tan, 0.51, 1.1, in_double=trigonometric.tan),
    MathFunction("erf", error_function.erf, 1.7, 1.3),
    MathFunction("erfc", error_function.erfc, 2.5, 2.4),
    MathFunction("power", power.power, 0.6, 0.9, arity=2),
    MathFunction("atan2", inverse.atan2, 1.6, 1.7, arity=2),
    MathFunction("cbrt", power.cbrt, 0.51, 0.7, in_double=power.cbrt),
    MathFunction("sqrt", power.sqrt, 0.5, 0.5, called=NEITHER),
    MathFunction("rsqrt", power.rsqrt, 1.5, 1.5, called=NEITHER),
    MathFunction("remainder", remainder, 0.0, 0.0, arity=2),
    MathFunction("floor", rounding.floor, 0.0, 0.0, called=NEITHER),
    MathFunction("ceil", rounding.ceil, 0.0, 0.0, called=NEITHER),
    MathFunction("round-nearest-even", rounding.round_nearest_even, 0.0, 0.0, called=NEITHER),
    MathFunction(
        "round-nearest-afz", rounding.round_nearest_away_from_zero, 0.0, 0.0, called=NEITHER
    ),
    MathFunction("asin", inverse.asin, 0.51, 1.2, in_double=inverse.asin),
    MathFunction("acos", inverse.acos, 0.51, 1.2, in_double=inverse.acos),
    MathFunction("atan", inverse.atan, 1.4, 1.7),
    MathFunction("sinh", exponential.sinh, 0.51, 1.8, in_double=exponential.sinh_of_single),
    MathFunction("cosh", exponential.cosh, 0.51, 1.5, in_double=exponential.cosh_of_single),
    MathFunction("asinh", logarithm.asinh, 0.51, 1.9, in_double=logarithm.asinh_of_single),
    MathFunction("acosh", logarithm.acosh, 0.51, 1.1, in_double=logarithm.acosh_of_single),
    MathFunction("atanh", logarithm.atanh, 0.51, 2.0, in_double=logarithm.atanh_of_single),
)

MATH: dict[str, MathFunction] = {function.name: function for function in _FUNCTIONS}
"""Every function by HLO opcode (or XLA's name where HLO has no opcode)."""

CIRCLE = ("sine", "cosine")
"""The result of `circle`."""


def circle(f: FunctionBuilder, x: Value, *, fma: bool = True) -> tuple[Value, ...]:
    """Emit the sine and the cosine of the same operand (f32 or f64), the bits of `MATH`'s."""
    if called.has_calls(f):
        return called.call(
            f, lambda type: called.subroutine("circle", _circle, (type,), fma, len(CIRCLE)), (x,)
        )
    return _circle(f, x, fma=fma)


def _circle(f: FunctionBuilder, x: Value, *, fma: bool) -> tuple[Value, ...]:
    return trigonometric.sine_and_cosine(MathEmitter(f, x.type, fma), x)

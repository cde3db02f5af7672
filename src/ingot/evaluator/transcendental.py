# SPDX-License-Identifier: Apache-2.0
"""Evaluates transcendental functions, `sqrt` and `power`.

Types narrower than 64 bits go through float64 (complex128) and are rounded once, so their results
are correctly rounded except for rare ties; types narrower than f32 are rounded from f32, in which
every backend computes them; 64-bit types are as accurate as NumPy's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.evaluator import complex_numbers
from ingot.evaluator.numbers import computed, doubled, rounded
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction


def _narrowed(value: Array, element: DType) -> Array:
    """Return an f64 (c128) result in `element`."""
    is_narrow = element.is_narrow_float
    return rounded(np.asarray(value).astype(np.float32) if is_narrow else value, element)


def _register(opcode: str, function: Callable[..., Any]) -> None:
    """Register a rule that computes in double precision and rounds to the result's type."""

    @evaluates(opcode)
    def rule(op: Instruction, operands: Sequence[Any], context: Context) -> Value:  # pyright: ignore[reportUnusedFunction]
        return _narrowed(function(*map(doubled, operands)), op.shape.dtype)


def _by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        flat = np.fromiter(map(function, x.reshape(-1).tolist()), np.float64, x.size)
        return flat.reshape(x.shape)

    return compute


def _reciprocal(x: Array) -> Array:
    return complex_numbers.divide(np.ones_like(x), x) if x.dtype.kind == "c" else 1 / x


def _logistic(x: Array) -> Array:
    # By e^-|x|, which does not overflow where the result is a denormal.
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _complex_logistic(x: Array) -> Array:
    return _reciprocal(1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return _reciprocal(np.sqrt(x))


def _or_complex(
    function: Callable[..., Array], on_complex: Callable[..., Array]
) -> Callable[..., Array]:
    def either(*operands: Array) -> Array:
        return (on_complex if operands[0].dtype.kind == "c" else function)(*operands)

    return either


_power = _or_complex(np.power, complex_numbers.power)


_register("acos", np.arccos)
_register("acosh", np.arccosh)
_register("asin", np.arcsin)
_register("asinh", np.arcsinh)
_register("atan2", _or_complex(np.arctan2, complex_numbers.atan2))
_register("atanh", np.arctanh)
_register("cbrt", np.cbrt)
_register("cosh", np.cosh)
_register("cosine", np.cos)
_register("erf", _by_element(math.erf))
_register("erfc", _by_element(math.erfc))
_register("exponential", np.exp)
_register("exponential-minus-one", np.expm1)
_register("log", np.log)
_register("log-plus-one", _or_complex(np.log1p, complex_numbers.log_plus_one))
_register("logistic", _or_complex(_logistic, _complex_logistic))
_register("rsqrt", _rsqrt)
_register("sine", np.sin)
_register("sinh", np.sinh)
_register("sqrt", np.sqrt)
_register("tan", _or_complex(np.tan, complex_numbers.tan))
_register("tanh", _or_complex(np.tanh, complex_numbers.tanh))


@evaluates("power")
def power(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The power; of integers modulo 2^bits, a negative exponent giving the truncated quotient."""
    base, exponent = operands
    if op.shape.dtype.is_integer:
        return rounded(_integer_power(computed(base), computed(exponent)), op.shape.dtype)
    return _narrowed(_power(doubled(base), doubled(exponent)), op.shape.dtype)


def _integer_power(base: Array, exponent: Array) -> Array:
    result, square, left = np.ones_like(base), base, np.where(exponent < 0, 0, exponent)
    left = left.astype(exponent.dtype)
    while left.any():
        result = np.where(left & 1, result * square, result)
        square = square * square
        left = left >> 1
    odd = np.where(exponent & 1, -np.ones_like(base), np.ones_like(base))
    quotient = np.where(base == 1, 1, np.where(_is_minus_one(base), odd, 0))
    return np.where(exponent < 0, quotient, result).astype(base.dtype)


def _is_minus_one(base: Array) -> Array:
    """Return where a signed `base` is -1; nowhere for unsigned ones."""
    return base == -1 if base.dtype.kind == "i" else np.zeros(base.shape, np.bool_)

# SPDX-License-Identifier: Apache-2.0
"""Compile one math function as an array kernel; references in wider types; for the math tests."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.math import MATH
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, F64, I64, PTR, VOID, Type, vector

CONVERTED_LANES = 16
TYPES = {np.dtype(np.float32): F32, np.dtype(np.float64): F64}


@functools.cache
def kernel(
    name: str, element_text: str, lanes: int, level: str | None, is_called: bool = False
) -> Library:
    """Return `k(x, y, result, n)`, n a multiple of `lanes`, for one CPU level.

    `is_called`: the function is a subroutine of the module, not a formula in its place.
    """
    function = MATH[name]
    element = F32 if element_text == "float" else F64
    target = TargetSpec.host(level)
    module = ModuleBuilder(name, vector_bits=target.vector_bits if is_called else 0)
    f = module.function("k", VOID, [("x", PTR), ("y", PTR), ("result", PTR), ("n", I64)])
    x, y, result, n = f.params
    type = vector(element, lanes)

    def body(i):
        operands = [f.load(type, f.gep(at, i, element)) for at in (x, y)[: function.arity]]
        f.store(function(f, *operands, fma=target.has_fma), f.gep(result, i, element))

    f.for_range(n, body, step=lanes)
    f.ret()
    return link_object([compile_object(module.text(), target)])


def evaluate(
    name: str,
    *args: np.ndarray,
    lanes: int = 16,
    level: str | None = None,
    is_called: bool = False,
) -> np.ndarray:
    """Return the compiled function of arrays of any length."""
    count = args[0].size
    padded = -(-count // 128) * 128
    inputs = [np.ones(padded, args[0].dtype) for _ in range(2)]
    for given, into in zip(args, inputs, strict=False):
        into[:count] = given
    result = np.empty_like(inputs[0])
    library = kernel(name, TYPES[args[0].dtype].text, lanes, level, is_called)
    pointer = ctypes.c_void_p
    function = library.function("k", None, pointer, pointer, pointer, ctypes.c_int64)
    function(inputs[0].ctypes.data, inputs[1].ctypes.data, result.ctypes.data, padded)
    return result[:count]


def run(emit, source: Type, x: np.ndarray, out: np.ndarray, level: str) -> None:
    """Fill `out` with `emit(f, lanes of x, whether the CPU converts f16)`; 16 lanes at once."""
    target = TargetSpec.host(level)
    module = ModuleBuilder("conversion")
    f = module.function("k", VOID, [("x", PTR), ("out", PTR), ("n", I64)])
    given, result, count = f.params
    type = vector(source, CONVERTED_LANES)

    def body(i):
        made = emit(f, f.load(type, f.gep(given, i, source)), target.has_f16c)
        f.store(made, f.gep(result, i, made.type.element))

    f.for_range(count, body, step=CONVERTED_LANES)
    f.ret()
    library = link_object([compile_object(module.text(), target)])
    function = library.function("k", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function(x.ctypes.data, out.ctypes.data, x.size)


def _elementwise(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([function(float(item)) for item in x.ravel()], np.longdouble)


LN2 = np.log(np.longdouble(2))


def _logistic(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _erf(x: np.ndarray) -> np.ndarray:
    """Maclaurin series below 3, continued fraction of erfc beyond; about 1e-19 relative."""
    a = np.minimum(np.abs(x), np.longdouble(7))
    square = a * a
    term, total = a.copy(), a.copy()
    for n in range(1, 90):
        term = term * (2 * square) / (2 * n + 1)
        total = total + term
    series = total * np.exp(-square)
    fraction = np.zeros_like(a)
    for n in range(120, 0, -1):
        fraction = (np.longdouble(n) / 2) / (a + fraction)
    tail = np.exp(-square) / (np.maximum(a, 1) + np.where(a < 1, 0, fraction))
    root = np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
    large = 1 - tail / root
    return np.copysign(np.where(a < 3, 2 / root * series, large), x)


def _erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf below 1, a continued fraction beyond; about 1e-18 relative."""
    a = np.minimum(np.abs(x), np.longdouble(30))
    high = a.astype(np.float32).astype(np.longdouble)
    # Squares of f32 are exact in 64 bits.
    falling = np.exp(-(high * high)) * np.exp(-(a - high) * (a + high))
    fraction, far = np.zeros_like(a), np.maximum(a, 1)
    for n in range(600, 0, -1):
        fraction = (np.longdouble(n) / 2) / (far + fraction)
    root = np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))
    tail = np.where(a < 1, 1 - _erf(a), falling / (far + fraction) / root)
    return np.where(x < 0, 2 - tail, tail)


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "logistic": _logistic,
    "tanh": np.tanh,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "erf": _erf,
    "erfc": _erfc,
    "power": np.power,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "remainder": np.fmod,
    "floor": np.floor,
    "ceil": np.ceil,
    "round-nearest-even": np.rint,
    "round-nearest-afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def reference(name: str, *args: np.ndarray) -> np.ndarray:
    """Return the function in the next wider type: f64 for f32, x87 extended for f64."""
    single = args[0].dtype == np.float32
    # The series of erf needs the wider type for f32 as well.
    wide = np.float64 if single and name not in ("erf", "erfc") else np.longdouble
    with np.errstate(all="ignore"):
        return REFERENCES[name](*[item.astype(wide) for item in args])

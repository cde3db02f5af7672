# SPDX-License-Identifier: Apache-2.0
"""What is measured: each function of floats that HLO has, its reference, and JAX's name of it.

References are computed in long double (x87: 64 bits of precision), which is 11 bits more than f64
has and 40 more than f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.llvm.math_harness import REFERENCES

Array = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("bf16", "f16", "f32", "f64")
COMPLEX = ("c64", "c128")
_PLAIN = "ROOT r = {kind} {name}({operands})"
_ATAN = """c = {element}[] constant(1)
  one = {kind} broadcast(c), dimensions={{}}
  ROOT r = {kind} atan2(x, one)"""


@dataclass(frozen=True)
class Function:
    """One function: HLO's opcode (or what it is made of), its reference, JAX's name for XLA's.

    `exact`: the reference in the type itself is right to the last bit, and quick.
    """

    name: str
    jax: str
    reference: Callable[..., Array]
    arity: int = 1
    types: tuple[str, ...] = FLOATS
    text: str = _PLAIN
    result: str = ""
    exact: bool = False

    def hlo(self, element: str, count: int) -> str:
        """Return the module's text for operands of this element type and number."""
        operands = ["x", "y"][: self.arity]
        params = [
            f"  {name} = {element}[{count}] parameter({at})" for at, name in enumerate(operands)
        ]
        root = self.text.format(
            kind=f"{_REAL_OF[element] if self.result else element}[{count}]",
            element=element,
            name=self.name,
            operands=", ".join(operands),
        )
        return "\n".join(["HloModule m", "", "ENTRY main {", *params, f"  {root}", "}", ""])

    def exact_values(self, *args: Array) -> Array:
        """Return the exact values, rounded to long double."""
        wide = np.clongdouble if args[0].dtype.kind == "c" else np.longdouble
        with np.errstate(all="ignore"):
            return self.reference(*[item.astype(wide) for item in args])


_REAL_OF = {"c64": "f32", "c128": "f64"}


def _expm1_complex(z: Array) -> Array:
    x, y = z.real, z.imag
    half = np.sin(y / 2)
    real = np.expm1(x) * np.cos(y) - 2 * half * half
    return _joined(real, np.exp(x) * np.sin(y))


def _log1p_complex(z: Array) -> Array:
    x, y = z.real, z.imag
    near = np.log1p(x * (2 + x) + y * y) / 2
    far = np.log(np.hypot(1 + x, y))
    return _joined(np.where(np.hypot(x, y) < 0.5, near, far), np.arctan2(y, 1 + x))


def _joined(real: Array, imag: Array) -> Array:
    z = np.empty(real.shape, np.clongdouble)
    z.real, z.imag = real, imag
    return z


def _logistic_complex(z: Array) -> Array:
    e = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, e, 1) / (1 + e)


_UNARY = {
    "exponential": "exp",
    "exponential-minus-one": "expm1",
    "log": "log",
    "log-plus-one": "log1p",
    "logistic": "logistic",
    "tanh": "tanh",
    "sine": "sin",
    "cosine": "cos",
    "tan": "tan",
    "erf": "erf",
    "erfc": "erfc",
    "cbrt": "cbrt",
    "rsqrt": "rsqrt",
    "asin": "asin",
    "acos": "acos",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
}
_EXACT = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round-nearest-even": "round",
    "round-nearest-afz": "round",
}
_COMPLEX: dict[str, tuple[str, Callable[..., Array]]] = {
    "abs": ("abs", np.abs),
    "exponential": ("exp", np.exp),
    "exponential-minus-one": ("expm1", _expm1_complex),
    "log": ("log", np.log),
    "log-plus-one": ("log1p", _log1p_complex),
    "logistic": ("logistic", _logistic_complex),
    "tanh": ("tanh", np.tanh),
    "sine": ("sin", np.sin),
    "cosine": ("cos", np.cos),
    "tan": ("tan", np.tan),
    "sqrt": ("sqrt", np.sqrt),
    "rsqrt": ("rsqrt", lambda z: 1 / np.sqrt(z)),
    "asin": ("asin", np.arcsin),
    "acos": ("acos", np.arccos),
    "sinh": ("sinh", np.sinh),
    "cosh": ("cosh", np.cosh),
    "asinh": ("asinh", np.arcsinh),
    "acosh": ("acosh", np.arccosh),
    "atanh": ("atanh", np.arctanh),
}


def _table() -> tuple[Function, ...]:
    unary = [Function(name, jax, REFERENCES[name]) for name, jax in _UNARY.items()]
    unary.append(Function("atan", "atan", np.arctan, text=_ATAN))
    exact = [Function(name, jax, REFERENCES[name], exact=True) for name, jax in _EXACT.items()]
    binary = [
        Function("power", "pow", REFERENCES["power"], 2),
        Function("atan2", "atan2", REFERENCES["atan2"], 2),
        Function("remainder", "rem", REFERENCES["remainder"], 2),
        Function("divide", "div", np.divide, 2),
    ]
    planes = [
        Function(name, jax, reference, types=COMPLEX) for name, (jax, reference) in _COMPLEX.items()
    ]
    planes[0] = replace(planes[0], result="real")
    pairs = [
        Function("multiply", "mul", np.multiply, 2, COMPLEX),
        Function("divide", "div", np.divide, 2, COMPLEX),
        Function("power", "pow", np.power, 2, COMPLEX),
    ]
    return (*unary, *exact, *binary, *planes, *pairs)


FUNCTIONS = _table()


def find(name: str, element: str) -> Function:
    """Return the function of this name on this element type."""
    return next(item for item in FUNCTIONS if item.name == name and element in item.types)

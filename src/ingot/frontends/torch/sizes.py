# SPDX-License-Identifier: Apache-2.0
"""Sizes of PyTorch (`int`, `SymInt`) as sizes of HLO (`int`, `Dim`).

A `SymInt` holds a SymPy expression over named sizes; a `Dim` is the same as an integer polynomial.
Invariant: a symbol has the same name on both sides (`s77`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]
from torch.utils._sympy import functions as torch_functions

from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.support.diagnostics import UnsupportedError

_SYMPY: Any = _sympy  # it has no types

Size = int | Dim
Sizes = tuple[Size, ...]


def _power(base: Size, exponent: Size) -> Size:
    if not isinstance(exponent, int) or exponent < 0:
        raise ValueError("a power of an unknown or negative exponent")
    return reduce(lambda made, _: made * base, range(exponent), 1)


def _ceil_div(left: Size, right: Size) -> Size:
    return dim_math.floordiv(left + right - 1, right)


def _modular_index(base: Size, divisor: Size, modulus: Size) -> Size:
    return dim_math.mod(dim_math.floordiv(base, divisor), modulus)


_MAKERS: dict[Any, Callable[..., Size]] = {
    _SYMPY.Add: lambda *parts: sum(parts[1:], parts[0]),
    _SYMPY.Mul: lambda *parts: reduce(lambda made, part: made * part, parts),
    _SYMPY.Pow: _power,
    torch_functions.PowByNatural: _power,
    torch_functions.FloorDiv: dim_math.floordiv,
    torch_functions.CleanDiv: dim_math.floordiv,
    torch_functions.CeilDiv: _ceil_div,
    torch_functions.Mod: dim_math.mod,
    torch_functions.PythonMod: dim_math.mod,
    torch_functions.Max: lambda *parts: reduce(dim_math.maximum, parts),
    torch_functions.Min: lambda *parts: reduce(dim_math.minimum, parts),
    torch_functions.ModularIndexing: _modular_index,
    torch_functions.Identity: lambda *parts: parts[0],
}


def size_of(value: Any) -> Size:
    """Return an `int`, `SymInt` or SymPy expression as a size.

    Raises:
        UnsupportedError: INGOT0371, it is not an integer polynomial of named sizes.
    """
    if isinstance(value, int):
        return int(value)
    expression = value if isinstance(value, _SYMPY.Expr) else value.node.expr
    made: dict[Any, Size] = {}
    for part in _SYMPY.postorder_traversal(expression):
        if part not in made:
            made[part] = _made(part, made)
    return made[expression]


def sizes_of(values: Sequence[Any]) -> Sizes:
    """Return the sizes of a shape."""
    return tuple(map(size_of, values))


def _made(part: Any, made: dict[Any, Size]) -> Size:
    if part.is_Integer:
        return int(part)
    if part.is_Symbol:
        return Dim.symbol(str(part))
    maker = _MAKERS.get(part.func)
    if maker is not None:
        try:
            return maker(*(made[item] for item in part.args))
        except (ValueError, KeyError):
            pass
    raise UnsupportedError(
        f"the size {part} is not made of sums, products, quotients and remainders of sizes",
        code="INGOT0371",
        hint="mark the dimension as static, or compute the size in integers",
    )

# SPDX-License-Identifier: Apache-2.0
"""Sizes of PyTorch (`int`, `SymInt`) as sizes of HLO (`int`, `Dim`).

A `SymInt` holds a SymPy expression over named sizes; a `Dim` is the same as an integer polynomial.
An expression that is not such a polynomial (a rounded product with a fraction, a sum with a number
that may be negative) becomes a named size of its own, which the wrapper computes.

Invariant: a symbol has the same name on both sides (`s77`); equal expressions get equal names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from hashlib import sha256
from typing import Any, cast

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]
import torch
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.symbol import SymT, prefix_str

from ingot.frontends.torch.fx.equal_sizes import replaced
from ingot.frontends.torch.fx.guarded_sizes import equations, known_sizes, simplified
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim

_SYMPY: Any = _sympy  # it has no types

_PRINTER: Any = PythonPrinter()
_FLOAT_PREFIXES = tuple(prefix_str[kind] for kind in (SymT.FLOAT, SymT.UNBACKED_FLOAT))

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
    torch_functions.FloorDiv: dim_math.canonical_floordiv,
    torch_functions.CleanDiv: dim_math.floordiv,
    torch_functions.CeilDiv: _ceil_div,
    torch_functions.Mod: dim_math.mod,
    torch_functions.PythonMod: dim_math.mod,
    torch_functions.Max: lambda *parts: reduce(dim_math.maximum, parts),
    torch_functions.Min: lambda *parts: reduce(dim_math.minimum, parts),
    torch_functions.ModularIndexing: _modular_index,
    torch_functions.Identity: lambda *parts: parts[0],
}

_FUNCTIONS: dict[str, Any] = {
    "floordiv": torch_functions.FloorDiv,
    "mod": torch_functions.PythonMod,
    "max": torch_functions.Max,
    "min": torch_functions.Min,
}
"""The functions of named sizes as PyTorch has them."""


def size_of(value: Any) -> Size:
    """Return an `int`, `SymInt` or SymPy expression as a size."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, torch.SymInt):
        return _computed_size(value)
    # To ask PyTorch what its guards say takes a millisecond.
    node: Any = cast("Any", value).node
    environment, raw = node.shape_env, node._expr
    known = known_sizes(environment)
    if raw not in known:
        made = _computed_size(value)
        known = known_sizes(environment)
        known[raw] = made
    return known[raw]


def _computed_size(value: Any) -> Size:
    """Return a `SymInt` or SymPy expression as a size."""
    expression = expression_of(value)
    if not isinstance(value, _SYMPY.Expr):
        number = _guarded_number(value.node.shape_env, expression)
        if number is not None:
            return number
    if expression.is_Symbol or not _may_be_negative(value, expression):
        made: dict[Any, Size] = {}
        for part in _SYMPY.postorder_traversal(expression):
            if part not in made:
                made[part] = _made(part, made)
        return made[expression]
    return Dim.symbol(_own_name(expression))


def expression_of(value: Any) -> Any:
    """Return the SymPy expression of a `SymInt`, simplified by PyTorch's guards.

    If by a guard 6 divides n, `n // 6 * 6` is n; if by a guard m equals `n // 2`, `n // 2` is m.
    """
    if isinstance(value, _SYMPY.Expr):
        return value
    environment = value.node.shape_env
    return simplified(replaced(value.node.expr, environment), environment)


def guard_equal(have: Size, want: Any) -> bool:
    """Whether a size equals a `SymInt` in every call, because PyTorch's guards say so from now on.

    Of a size of names that PyTorch does not have, nothing is known.
    """
    node = want.node
    names = {str(name): name for name in node.shape_env.var_to_range}
    expression = _expression_of_size(have, names)
    if expression is None:
        return False
    is_equal = _SYMPY.Eq(expression, node.expr)
    return bool(node.shape_env.evaluate_expr(is_equal, fallback_value=False))


def _expression_of_size(size: Size, names: dict[str, Any]) -> Any:
    """Return a size as a SymPy expression of named sizes, or None; sizes are nested 100 deep."""
    if isinstance(size, int):
        return _SYMPY.Integer(size)
    total = _SYMPY.Integer(0)
    for key, factor in size.terms:
        for atom in key:
            if atom.function:
                sides = [_expression_of_size(side, names) for side in (atom.left, atom.right)]
                made = None if None in sides else _FUNCTIONS[atom.function](*sides)
            else:
                made = names.get(atom.text)
            if made is None:
                return None
            factor = factor * made
        total = total + factor
    return total


def sizes_of(values: Sequence[Any]) -> Sizes:
    """Return the sizes of a shape."""
    return tuple(map(size_of, values))


def is_float_symbol(name: str) -> bool:
    """Whether a symbol of PyTorch is a float, not an integer."""
    return name.startswith(_FLOAT_PREFIXES)


def is_data_symbol(name: str) -> bool:
    """Whether a symbol of PyTorch is an integer that data decides."""
    return name.startswith(prefix_str[SymT.UNBACKED_INT])


def definitions_of(values: Iterable[Any]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the expressions in `SymInt`s that are named sizes of their own.

    A symbol by which guards replace an expression is one, too: not every graph that has the
    expression takes an argument with the symbol.

    Returns:
        name -> its definition as Python text (with `math`), and the symbols in that.
    """
    found: dict[str, tuple[str, frozenset[str]]] = {}
    environments: dict[int, Any] = {}
    each_once = {(id(value.node.shape_env), value.node._expr): value for value in values}
    for value in each_once.values():
        environments[id(value.node.shape_env)] = value.node.shape_env
        expression = expression_of(value)
        for part in _SYMPY.postorder_traversal(expression):
            if isinstance(part, _SYMPY.Expr) and not part.is_Atom:
                found[_own_name(part)] = _definition(part)
    for old, new in (each for one in environments.values() for each in equations(one)):
        symbols = list(new.free_symbols)
        if len(symbols) == 1 and (new - symbols[0]).is_Integer:
            found[str(symbols[0])] = _definition(old - (new - symbols[0]))
    return found


def _definition(expression: Any) -> tuple[str, frozenset[str]]:
    return _PRINTER.doprint(expression), frozenset(map(str, expression.free_symbols))


def _guarded_number(environment: Any, expression: Any) -> int | None:
    """Return 0 or 1 if PyTorch compiles for this value of an expression, else None.

    PyTorch does so if it matters, for example for `n // 2`; other expressions are unchanged.
    """
    if expression.is_Symbol:
        return None
    bounds = environment.bound_sympy(expression)
    for number in (1, 0):
        if bounds.lower <= number <= bounds.upper:
            known = environment._maybe_evaluate_static(_SYMPY.Eq(expression, number))
            if known == True:  # noqa: E712 - SymPy's truth
                return number
    return None


def _own_name(expression: Any) -> str:
    return f"e{sha256(str(expression).encode()).hexdigest()[:12]}"


def _may_be_negative(value: Any, expression: Any) -> bool:
    """Whether a symbol of an expression, or the dividend of a remainder, may be negative.

    Named sizes of HLO never are. The dividend in `(n - 3) // 2 + 1` may be, but then the
    expression is not a valid size.
    """
    if isinstance(value, _SYMPY.Expr):
        return False
    environment = value.node.shape_env
    ranges = environment.var_to_range
    if any(symbol in ranges and ranges[symbol].lower < 0 for symbol in expression.free_symbols):
        return True
    taken = [part.args[0] for part in expression.atoms(torch_functions.PythonMod)]
    return any(environment.bound_sympy(part).lower < 0 for part in taken)


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
    return Dim.symbol(_own_name(part))

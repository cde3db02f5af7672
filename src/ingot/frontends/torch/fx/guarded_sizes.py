# SPDX-License-Identifier: Apache-2.0
"""Sizes as PyTorch's guards simplify them: `simplified(expression, environment)`.

`f32[m] + f32[n // 2]` makes PyTorch compile for `m == n // 2`. It replaces a name that equals a
sum; if it equals a rounded quotient, both remain, with a guard. Ingot compares sizes structurally,
so the quotient is replaced by the name everywhere.

Invariant: a guard is true in every call, because PyTorch compiles again if it is not.

Example:
    x: f32[s77], y: f32[s17], x + y[: len(y) // 2]
    Eq(s77, s17 // 2)                        s17 // 2 is s77 everywhere
    Eq(s48, (s53 - 3) // 2 + 1)              (s53 - 3) // 2 is s48 - 1
    Eq(s27 * s53, 12), Eq(s27 * s53, s17)    s17 is 12
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]
from torch.utils._sympy import functions as torch_functions

from ingot.frontends.torch.fx.equal_sizes import is_decided_by_data
from ingot.support.records import mutable

_SYMPY: Any = _sympy  # it has no types
_DIVISIONS = (torch_functions.FloorDiv, torch_functions.CleanDiv)

Equations = list[tuple[Any, Any]]
"""SymPy expressions, each with a simpler equal one; earlier ones apply to later ones."""


@mutable
class _Known:
    """The facts about a table of names.

    Attributes:
        guards: the number of its guards that were read.
        equations: the equations of these guards.
        made: the results of `simplified`.
        sizes: the sizes of expressions, see `known_sizes`.
        state: what PyTorch knew of the names when it had these sizes.
    """

    guards: int = 0
    equations: Equations = field(default_factory=Equations)
    made: dict[Any, Any] = field(default_factory=dict[Any, Any])
    sizes: dict[Any, Any] = field(default_factory=dict[Any, Any])
    state: tuple[int, ...] = ()


_KNOWN: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()


def simplified(expression: Any, environment: Any) -> Any:
    """Return a SymPy expression in which equal sizes are written alike.

    Args:
        expression: the expression.
        environment: PyTorch's table of names (`ShapeEnv`).
    """
    known, plain = _known(environment), _divided(expression, environment)
    if not known.equations:
        return plain
    if plain not in known.made:
        made = _replaced(plain, known.equations)
        known.made[plain] = made if made == plain else _divided(made, environment)
    return known.made[plain]


def known_sizes(environment: Any) -> dict[Any, Any]:
    """Return the sizes that PyTorch's expressions were found to be, empty after each new guard.

    Args:
        environment: PyTorch's table of names (`ShapeEnv`).
    """
    known, state = _known(environment), (len(environment.guards), *environment._get_key())
    if known.state != state:
        known.sizes.clear()
        known.state = state
    return known.sizes


def equations(environment: Any) -> Equations:
    """Return the equations of the guards of a table of names (`ShapeEnv`), in their order."""
    return _known(environment).equations


def _known(environment: Any) -> _Known:
    known = _KNOWN.setdefault(environment, _Known())
    for guard in environment.guards[known.guards :]:
        for each in _SYMPY.And.make_args(guard.expr):
            if isinstance(each, _SYMPY.Equality):
                known.equations.extend(_equation(each, environment, known.equations))
                known.made.clear()
    known.guards = len(environment.guards)
    return known


def _replaced(expression: Any, known: Equations) -> Any:
    for old, new in known:
        expression = expression.xreplace({old: new})
    return expression


def _equation(guard: Any, environment: Any, before: Equations) -> Equations:
    """Return the equation that a guard adds to those before it, if it adds one."""
    if any(map(is_decided_by_data, guard.free_symbols)):
        return []
    # PyTorch may have replaced a name because of its guard, which then says nothing more.
    given = [environment.replace(side) for side in guard.args]
    sides = [_replaced(_divided(side, environment), before) for side in given]
    difference = sides[0] - sides[1]
    terms = [term.as_coeff_Mul() for term in _SYMPY.Add.make_args(difference)]
    rounded = [(part, factor) for factor, part in terms if _is_rounded(part) and factor in (1, -1)]
    if rounded:
        part, factor = max(rounded, key=lambda pair: len(str(pair[0])))
        return [(part, part - difference * factor)]
    for simple, other in (sides, sides[::-1]):
        if simple.is_Atom and not other.is_Number and simple != other:
            return [(other, simple)]
    return []


def _divided(expression: Any, environment: Any) -> Any:
    """Return an expression without divisions that are exact by a guard."""
    if expression.is_Atom:
        return expression
    expression = _with_known_quotients(environment.simplify(expression), environment)
    if not expression.has(*_DIVISIONS):
        return expression
    whole = _quotients_as_fractions(expression, {_fraction(*m.args) for m in environment.divisible})
    return whole if _is_polynomial(whole) else expression


def _with_known_quotients(expression: Any, environment: Any) -> Any:
    """Return an expression with a number for each quotient that has one value in all calls.

    Guards bound names: of `12 <= n <= 15`, `n // 4` is 3.
    """
    made: dict[Any, Any] = {}
    for part in expression.atoms(*_DIVISIONS):
        bound = environment.bound_sympy(part)
        if bound.lower == bound.upper and bound.lower.is_Integer:
            made[part] = bound.lower
    return expression.xreplace(made) if made else expression


def _quotients_as_fractions(expression: Any, exact: set[Any]) -> Any:
    """Return an expression with fractions for the exact divisions."""
    made: dict[Any, Any] = {}
    for part in _SYMPY.postorder_traversal(expression):
        made[part] = part
        if part.func in _DIVISIONS:
            fraction = _fraction(made[part.args[0]], made[part.args[1]])
            if fraction in exact or _is_polynomial(fraction):
                made[part] = fraction
        elif part.func in (_SYMPY.Add, _SYMPY.Mul):
            made[part] = part.func(*(made[item] for item in part.args))
    return _SYMPY.expand(made[expression])


@lru_cache(maxsize=1024)
def _fraction(over: Any, under: Any) -> Any:
    return _SYMPY.cancel(over / under)


def _is_polynomial(expression: Any) -> bool:
    """Whether an expression has only nonnegative integers as factors and exponents."""
    return all(number.is_Integer for number in expression.atoms(_SYMPY.Rational)) and all(
        power.exp.is_nonnegative for power in expression.atoms(_SYMPY.Pow)
    )


def _is_rounded(part: Any) -> bool:
    """Whether an expression is a function of sizes, such as a rounded quotient."""
    return not (part.is_Atom or part.is_Add or part.is_Mul or part.is_Pow)

# SPDX-License-Identifier: Apache-2.0
"""Sizes of arguments that PyTorch's guards make equal: `unified(expression, environment)`.

`f32[m] + f32[n // 2]` makes PyTorch compile for `m == n // 2`. It replaces a name by what it is
equal to where that is a sum; a rounded quotient stays beside the name, as a guard. Ingot compares
sizes as they are written, so the quotient becomes the name everywhere.

Invariant: a guard is true in every call, because PyTorch compiles anew where it is not.

Example:
    x: f32[s77], y: f32[s17], x + y[: len(y) // 2]
    Eq(s77, s17 // 2)                        s17 // 2 is s77 everywhere
    Eq(s48, (s53 - 3) // 2 + 1)              (s53 - 3) // 2 is s48 - 1
    Eq(s27 * s53, 12), Eq(s27 * s53, s17)    s17 is 12
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]

from ingot.frontends.torch.equal_sizes import is_decided_by_data

_SYMPY: Any = _sympy  # it has no types

Equations = list[tuple[Any, Any]]
"""SymPy expressions and what each is equal to, which is simpler; those before apply to each."""


@dataclass(slots=True)
class _Known:
    """What is known of a table of names.

    Attributes:
        guards: how many of its guards were read.
        equations: what they say.
        made: expressions and what `unified` makes of them.
    """

    guards: int = 0
    equations: Equations = field(default_factory=Equations)
    made: dict[Any, Any] = field(default_factory=dict[Any, Any])


_KNOWN: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()


def unified(expression: Any, environment: Any) -> Any:
    """Return a SymPy expression in which equal sizes have one form.

    Args:
        expression: the expression, as PyTorch simplifies it.
        environment: PyTorch's table of names (`ShapeEnv`).
    """
    known = _known(environment)
    if known.equations and expression not in known.made:
        known.made[expression] = _replaced(expression, known.equations)
    return known.made.get(expression, expression)


def equations(environment: Any) -> Equations:
    """Return what the guards of a table of names (`ShapeEnv`) say is equal, in their order."""
    return _known(environment).equations


def _known(environment: Any) -> _Known:
    known = _KNOWN.setdefault(environment, _Known())
    for guard in environment.guards[known.guards :]:
        if isinstance(guard.expr, _SYMPY.Equality):
            known.equations.extend(_equation(guard.expr, environment, known.equations))
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
    sides = [_replaced(environment.simplify(side), before) for side in guard.args]
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


def _is_rounded(part: Any) -> bool:
    """Whether an expression is a function of sizes, such as a rounded quotient."""
    return not (part.is_Atom or part.is_Add or part.is_Mul or part.is_Pow)

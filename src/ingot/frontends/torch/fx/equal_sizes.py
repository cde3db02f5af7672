# SPDX-License-Identifier: Apache-2.0
"""Data-dependent sizes that equal other sizes: `replaced(expression, environment)`.

`torch._check(n == m)` makes PyTorch accept `f32[n] + f32[m]`. PyTorch records the equation and
keeps both names; Ingot needs one name. If the equation is with a number or a size of an argument,
PyTorch replaces the name itself. In both cases the value of the name is only known at run time, so
the wrapper compares it with its replacement where it is defined.

Invariant: a name is replaced by names that are defined before it.

Example:
    n = x.item(); m = y.item(); torch._check(n == m + 3)
    u0, u1; Eq(u0, u1 + 3)                   u1 is u0 - 3 everywhere
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]
from torch.utils._sympy.symbol import SymT, symbol_is_type

_SYMPY: Any = _sympy  # it has no types


def replaced(expression: Any, environment: Any) -> Any:
    """Return a SymPy expression with names replaced by what they equal.

    Args:
        expression: the expression, as PyTorch has replaced its names.
        environment: PyTorch's table of names (`ShapeEnv`).
    """
    if not any(map(is_decided_by_data, expression.free_symbols)):
        return expression
    return expression.xreplace(_equal_sizes(environment))


def _equal_sizes(environment: Any) -> dict[Any, Any]:
    """Return the names that PyTorch's equations make redundant, and their replacements."""
    found: dict[Any, Any] = {}
    for check in _checks(environment):
        if not isinstance(check, _SYMPY.Equality):
            continue
        left, right = (environment.replace(side).xreplace(found) for side in check.args)
        solved = _solved(left, right)
        if solved is not None:
            one = dict((solved,))
            found = {name: item.xreplace(one) for name, item in found.items()} | one
    return found


def _checks(environment: Any) -> Iterable[Any]:
    for checks in environment.deferred_runtime_asserts.values():
        for check in checks:
            yield check.expr


def _solved(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return the last name of an equation and what it equals; None if that is not a sum.

    One side must be a name: an equation such as `u0 + u1 == 9` is of no use.
    """
    if not any(side.is_Symbol and is_decided_by_data(side) for side in (left, right)):
        return None
    rest: Any = _SYMPY.expand(left - right)
    names: list[Any] = [name for name in rest.free_symbols if is_decided_by_data(name)]
    if not names:
        return None
    last = max(names, key=_number)
    factor = rest.coeff(last)
    rest -= factor * last
    if factor not in (1, -1) or last in rest.free_symbols:
        return None
    return last, -rest / factor


def is_decided_by_data(name: Any) -> bool:
    """Whether a name is a data-dependent size."""
    return bool(symbol_is_type(name, SymT.UNBACKED_INT))


def _number(name: Any) -> int:
    """Return the number in a name: PyTorch counts them in the order in which they are defined."""
    return int(str(name).lstrip("u"))

# SPDX-License-Identifier: Apache-2.0
"""The sign of NaN results: by function, operand and ISA level.

IEEE 754 leaves it open, HLO does too. It is seen where bits are: in `bitcast-convert`, in
`is sign negative`, and in comparisons of type TOTALORDER, by which sorts put NaN first or last.
"""

from __future__ import annotations

import numpy as np
from tests.accuracy.engines import NUMPY, engine
from tests.accuracy.functions import FUNCTIONS, Array, Function

import ingot
from ingot.evaluator import evaluate

COUNT = 77
"""Lanes: whole vectors, and a rest."""
EVALUATOR = "evaluator"

INVALID: dict[str, tuple[float, ...]] = {
    "log": (-1.0,),
    "log-plus-one": (-2.0,),
    "sine": (np.inf,),
    "cosine": (np.inf,),
    "tan": (np.inf,),
    "sqrt": (-1.0,),
    "rsqrt": (-1.0,),
    "asin": (2.0,),
    "acos": (2.0,),
    "acosh": (0.5,),
    "atanh": (2.0,),
    "power": (-1.0, 0.5),
    "remainder": (1.0, 0.0),
    "divide": (0.0, 0.0),
}
"""Operands outside of a function's domain."""


def functions() -> list[Function]:
    """Return the real functions."""
    return [item for item in FUNCTIONS if "f32" in item.types]


def cases(function: Function, element: str) -> dict[str, list[Array]]:
    """Return operands that make NaN, by what they are: NaN, -NaN, a number outside the domain."""
    dtype = NUMPY[element]
    nan = np.array(np.nan, dtype)
    found: dict[str, list[float | Array]] = {}
    for label, value in (("NaN", nan), ("-NaN", -nan)):
        for at in range(function.arity):
            operands: list[float | Array] = [3.0] * function.arity
            operands[at] = value
            found[label if function.arity == 1 else f"{label} {('left', 'right')[at]}"] = operands
    if function.name in INVALID:
        found["outside"] = list(INVALID[function.name])
    return {
        label: [np.full(COUNT, item, dtype) for item in operands]
        for label, operands in found.items()
    }


def signs(function: Function, element: str, engine_name: str) -> dict[str, str]:
    """Return the sign of each case's results: "+", "-", "mixed", or "number"."""
    return {
        label: _sign(_run(function, element, engine_name, operands))
        for label, operands in cases(function, element).items()
    }


def _run(function: Function, element: str, engine_name: str, operands: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        if engine_name == EVALUATOR:
            result = evaluate(ingot.parse_hlo(function.hlo(element, COUNT)), operands)
        else:
            result = engine(engine_name, function, element, COUNT)(*operands)
    return np.asarray(result)


def _sign(result: Array) -> str:
    if not np.isnan(result).all():
        return "number"
    negative = np.signbit(result)
    if negative.all() or not negative.any():
        return "-" if negative[0] else "+"
    return "mixed"

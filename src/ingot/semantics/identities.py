# SPDX-License-Identifier: Apache-2.0
"""Identities of commutative opcodes: what a fold may start from without changing its result.

Example:
    >>> from ingot.hlo.dtype import F32, U8
    >>> identity_of("maximum", F32), identity_of("and", U8)
    (-inf, 255)
"""

from __future__ import annotations

from ingot.hlo.dtype import PRED, DType

WITH_IDENTITY = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
"""The opcodes that have one."""


def identity_of(opcode: str, element: DType) -> float | int | bool:
    """Return the value e with `e op x = x` for every x of a type, -0.0 for sums of floats."""
    inexact = element.is_float or element.is_complex
    least = -float("inf") if inexact else -(1 << (element.bits - 1)) * element.is_signed
    greatest = float("inf") if inexact else (1 << (element.bits - element.is_signed)) - 1
    all_ones = -1 if element.is_signed else (1 << element.bits) - 1
    table = {
        "add": -0.0 if element.is_float else 0,
        "multiply": 1,
        "maximum": least,
        "minimum": greatest,
        "and": all_ones,
        "or": 0,
        "xor": 0,
    }
    return bool(table[opcode]) if element is PRED else table[opcode]

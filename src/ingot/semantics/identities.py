# SPDX-License-Identifier: Apache-2.0
"""Identities of commutative opcodes: what a fold may start from without changing its result.

Example:
    >>> from ingot.hlo.dtype import F32, U8
    >>> identity_of("maximum", F32), identity_of("and", U8)
    (-inf, 255)
"""

from __future__ import annotations

from ingot.hlo.dtype import PRED, DType


def identity_of(opcode: str, element: DType) -> float | int | bool:
    """Return the value e with `e op x = x` for every x of a type, -0.0 for sums of floats."""
    found = _identities(element)[opcode]
    return bool(found) if element is PRED else found


def has_identity(opcode: str, element: DType) -> bool:
    """Whether `identity_of` knows an opcode's."""
    return opcode in _identities(element)


def _identities(element: DType) -> dict[str, float | int]:
    inexact = element.is_float or element.is_complex
    least = -float("inf") if inexact else -(1 << (element.bits - 1)) * element.is_signed
    greatest = float("inf") if inexact else (1 << (element.bits - element.is_signed)) - 1
    return {
        "add": -0.0 if element.is_float else 0,
        "multiply": 1,
        "maximum": least,
        "minimum": greatest,
        "and": -1 if element.is_signed else (1 << element.bits) - 1,
        "or": 0,
        "xor": 0,
    }

# SPDX-License-Identifier: Apache-2.0
"""Constants of kernels as text: a number as people write it, else its bits.

`2.0`, `-inf`, `true`, `1.0, -0.0` (complex); where reading that back would give other bits (a NaN
with a payload, a pred that is neither 0 nor 1), the bits in hexadecimal, most significant first:
`0x7fa00001`. Part of the kernel's text (`kernel.text`, `kernel.parse`).

Invariant: `scalar_of(scalar_text(scalar), element)` has the bits of `scalar`.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> one = scalar_of("0.1", F32)
    >>> scalar_text(one), scalar_text(Scalar(bytes.fromhex("0100a07f"), "f32"))
    ('0.1', '0x7fa00001')
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import numpy as np

from ingot.hlo.dtype import PRED, DType, dtype
from ingot.kernel.expr import Scalar

_WORDS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_FLOAT = re.compile(r"-?(?:\d{1,40}(?:\.\d{0,40})?(?:e[+-]?\d{1,4})?|inf|nan)", re.ASCII)
_BITS = re.compile(r"0x[0-9a-f]+", re.ASCII)


@lru_cache(maxsize=1 << 10)
def scalar_text(scalar: Scalar) -> str:
    """Return a constant as text."""
    element = dtype(scalar.storage)
    text = _plain(scalar.value, element)
    found = scalar_of(text, element)
    return text if found == scalar else f"0x{scalar.bits[::-1].hex()}"


def _plain(value: Any, element: DType) -> str:
    if element is PRED:
        return "true" if value else "false"
    if element.is_complex:
        return f"{value.real}, {value.imag}"
    return str(int(value)) if element.is_integer else str(value)


def scalar_of(text: str, element: DType) -> Scalar | None:
    """Return the constant that a text says, None if it is none of that type."""
    if _BITS.fullmatch(text) is not None:
        digits = text[2:]
        fits = len(digits) == 2 * element.bytes
        return Scalar(bytes.fromhex(digits)[::-1], element.name) if fits else None
    value = _value(text, element)
    return None if value is None else Scalar(np.asarray(value).tobytes(), element.name)


def _value(text: str, element: DType) -> Any:
    if element is PRED:
        return None if text not in _WORDS else np.bool_(_WORDS[text])
    if element.is_integer:
        return _integer(text, element)
    if not element.is_complex:
        return _float(text, element.numpy.type)
    parts = text.split(", ")
    half = np.float32 if element.bits == 64 else np.float64
    found = [_float(part, half) for part in parts]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    value = np.empty((), element.numpy)
    value.real, value.imag = found
    return value


def _integer(text: str, element: DType) -> Any:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    least = -(1 << (element.bits - 1)) if element.is_signed else 0
    most = (1 << (element.bits - element.is_signed)) - 1
    return element.numpy.type(number) if least <= number <= most else None


def _float(text: str, kind: Any) -> Any:
    """Return a number of a type, None where it has no such number (too large, a sign of none)."""
    if _FLOAT.fullmatch(text) is None:
        return None
    number = float(text)
    with np.errstate(over="ignore", invalid="ignore"):
        made = kind(number)
    rounded = float(made)
    if math.isnan(number):
        return made if math.isnan(rounded) else None
    is_near = rounded == number or (
        math.isfinite(rounded) and abs(number) <= max(2 * abs(rounded), 1)
    )
    return made if is_near else None

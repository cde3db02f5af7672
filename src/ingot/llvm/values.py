# SPDX-License-Identifier: Apache-2.0
"""Typed values and constants of the text IR builder.

A `Value` is a type and the operand text that LLVM reads (`%v7`, `3`, `splat (float 0x...)`).
Invariant: a float constant is printed as its exact bits, so LLVM gets exactly Python's value, NaN,
infinities and minus zero included.

Example:
    >>> from ingot.llvm.types import F32, I64, vector
    >>> const(I64, 3).text, const(F32, 0.5).text, const(vector(I64, 4), 1).text
    ('3', '0x3FE0000000000000', 'splat (i64 1)')
"""

from __future__ import annotations

import functools
import math
import struct as _struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingot.llvm.types import BF16, F16, F32, F64, I1, Type
from ingot.support.diagnostics import InternalError


class Value(NamedTuple):
    """One operand: its type and its text. A tuple, because millions are made."""

    type: Type
    text: str

    def __repr__(self) -> str:
        """Return the operand as LLVM writes it."""
        return f"{self.type.text} {self.text}"


class FunctionRef(NamedTuple):
    """A function known to the module, with the data that a `call` needs."""

    name: str
    return_type: Type
    param_types: tuple[Type, ...]
    text: str


Scalar = int | float | bool


def round_to_float(value: float) -> float:
    """Return `value` rounded to f32; beyond the largest f32 it is infinity, as a cast gives."""
    try:
        return float(_struct.unpack("<f", _struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _f64_text(value: float) -> str:
    return f"0x{_struct.unpack('<Q', _struct.pack('<d', value))[0]:016X}"


def _f32_text(value: float) -> str:
    # LLVM writes a float as the bits of the double of the same value.
    return _f64_text(round_to_float(value))


def _f16_text(value: float) -> str:
    try:
        packed = _struct.pack("<e", value)
    except OverflowError:
        packed = _struct.pack("<e", math.copysign(math.inf, value))
    return f"0xH{_struct.unpack('<H', packed)[0]:04X}"


def _bf16_text(value: float) -> str:
    if math.isnan(value):
        return "0xR7FC0"
    single = round_to_float(value)
    bits = _struct.unpack("<I", _struct.pack("<f", single))[0]
    high, low = bits >> 16, bits & 0xFFFF
    # A tie of the f32 may not be a tie of the f64 it was rounded from.
    above = low > 0x8000 or (low == 0x8000 and abs(value) > abs(single))
    tie = low == 0x8000 and value == single
    return f"0xR{high + (above or (tie and high & 1 == 1)):04X}"


_FLOAT_TEXT: dict[Type, Callable[[float], str]] = {
    F16: _f16_text,
    BF16: _bf16_text,
    F32: _f32_text,
    F64: _f64_text,
}


def scalar_text(type: Type, value: Scalar) -> str:
    """Return the constant text of a scalar `value` of a scalar `type`.

    Raises:
        InternalError: the type has no such constant.
    """
    if type.is_float:
        return _FLOAT_TEXT[type](float(value))
    if type is I1:
        return "true" if value else "false"
    if type.kind == "integer":
        number = int(value) & ((1 << type.bits) - 1)
        return str(number - (1 << type.bits) if number >> (type.bits - 1) else number)
    if type.kind == "pointer" and value == 0:
        return "null"
    raise InternalError(f"there is no constant {value!r} of type {type.text}")


def const(type: Type, value: Scalar | Sequence[Scalar]) -> Value:
    """Return the constant `value` of `type`; a scalar fills all lanes, a sequence gives each lane.

    Integers wrap to the type's width; floats round to nearest even.

    Raises:
        InternalError: the type has another number of lanes, or no such constant.
    """
    if isinstance(value, (int, float)):
        # Zeros compare equal whatever their sign, so a float zero must not come from the cache.
        return _const(type, value) if value or not type.is_float else _splat_const(type, value)
    if len(value) != type.lanes:
        raise InternalError(f"{len(value)} constants for the {type.lanes} lanes of {type.text}")
    if not type.is_vector:
        return const(type, value[0])
    element = type.element
    lanes = ", ".join([f"{element.text} {scalar_text(element, item)}" for item in value])
    return Value(type, f"<{lanes}>")


def _splat_const(type: Type, value: Scalar) -> Value:
    if type.is_vector:
        element = type.element
        return Value(type, f"splat ({element.text} {scalar_text(element, value)})")
    return Value(type, scalar_text(type, value))


# Making the text of a constant is the slowest part of emitting; functions share few constants.
_const = functools.lru_cache(maxsize=8192)(_splat_const)


@functools.lru_cache(maxsize=1024)
def known_lanes(value: Value) -> tuple[str, ...] | None:
    """Return the text of each lane of a vector constant, None for a computed value."""
    type, text = value
    if not type.is_vector or text[0] == "%":
        return None
    if text == "zeroinitializer":
        return (scalar_text(type.element, 0),) * type.lanes
    if text.startswith("splat ("):
        return (text[7:-1].partition(" ")[2],) * type.lanes
    if text[0] == "<":
        return tuple(item.partition(" ")[2] for item in text[1:-1].split(", "))
    return None


def of_lanes(type: Type, lanes: Sequence[str]) -> Value:
    """Return the constant whose lanes have these texts."""
    element = type.element.text
    if len(set(lanes)) == 1:
        return Value(type, f"splat ({element} {lanes[0]})")
    return Value(type, f"<{', '.join([f'{element} {lane}' for lane in lanes])}>")


def zero(type: Type) -> Value:
    """Return the all-zero constant of any type."""
    if type.kind in ("integer", "float", "pointer"):
        return const(type, 0)
    return Value(type, "zeroinitializer")


def undef(type: Type) -> Value:
    """Return a value that is never used (LLVM's poison)."""
    return Value(type, "poison")


def symbol_text(name: str) -> str:
    """Return `@name`, quoted where LLVM requires it."""
    if name.isascii() and name.replace(".", "_").replace("$", "_").isidentifier():
        return f"@{name}"
    safe = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}"
        for byte in name.encode()
    )
    return f'@"{safe}"'

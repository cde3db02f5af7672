# SPDX-License-Identifier: Apache-2.0
"""Functions that native functions may call: hints, blocks of memory, bits.

Each has a meaning as plain Python. Invariant: hints change speed only.
"""

from __future__ import annotations

import ctypes

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I64
from ingot.llvm.values import Value
from ingot.native.functions import emitted
from ingot.native.memory import raw_address
from ingot.native.pointers import Pointer
from ingot.native.types import i8, i64


def likely(condition: bool) -> bool:
    """Mark a condition of an `if` that nearly always holds."""
    return condition


def unlikely(condition: bool) -> bool:
    """Mark a condition of an `if` that hardly ever holds."""
    return condition


def _emit_copy(f: FunctionBuilder, target: Value, source: Value, size: Value) -> None:
    f.memcpy(target, source, size)


@emitted(_emit_copy)
def memcpy(target: Pointer, source: Pointer, size: i64) -> None:
    """Copy `size` bytes between regions that do not overlap."""
    ctypes.memmove(target.address, source.address, size)


def _emit_fill(f: FunctionBuilder, target: Value, byte: Value, size: Value) -> None:
    f.memset(target, int(byte.text), size)


@emitted(_emit_fill)
def memset(target: Pointer, byte: i8, size: i64) -> None:
    """Set `size` bytes to a byte that is known at translation."""
    ctypes.memset(target.address, byte, size)


def _emit_address(f: FunctionBuilder, pointer: Value) -> Value:
    return f.ptrtoint(pointer)


@emitted(_emit_address)
def address_of(pointer: Pointer | None) -> i64:
    """Return an address as a number."""
    return raw_address(pointer)


def _emit_bit_length(f: FunctionBuilder, value: Value) -> Value:
    leading = f.intrinsic("llvm.ctlz", I64, [value, f.as_condition(False)])
    return f.sub(f.const(I64, 64), leading)


@emitted(_emit_bit_length)
def bit_length(value: i64) -> i64:
    """Return the bits that a number needs: 0 for 0, 3 for 4. It must not be negative."""
    return value.bit_length()


def _emit_trailing_zeros(f: FunctionBuilder, value: Value) -> Value:
    return f.intrinsic("llvm.cttz", I64, [value, f.as_condition(True)])


@emitted(_emit_trailing_zeros)
def trailing_zeros(value: i64) -> i64:
    """Return the number of the lowest bit that is set; there must be one."""
    return (value & -value).bit_length() - 1

# SPDX-License-Identifier: Apache-2.0
"""MLIR's dense elements to literals.

The bindings return a buffer for the types of Python's buffer protocol. The others (bf16, the f8 and
sub-byte types, complex) are read from MLIR's text of the attribute, which has each element, or all
bytes as one hexadecimal string when there are many. Elements of sub-byte types take a byte each, in
the text as in Ingot.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ingot.hlo.dtype import Kind, rounded_to
from ingot.hlo.literal import Literal
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError
from ingot.support.regex import regex

_BODY = regex(r"dense<(.*)>\s*:", re.DOTALL)
_BYTES = regex(r'"0x([0-9A-Fa-f]*)"')
_ELEMENT = regex(r"0x[0-9A-Fa-f]+|-?[\d.]+(?:[eE][+-]?\d+)?|true|false")
_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)
# Element types whose buffer the bindings give.
_BUFFERED = frozenset(
    ("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")
)


def literal(op: Any, shape: Shape) -> Literal:
    """Return the value of the constant `op`, which has `shape`."""
    if shape.dtype.name in _BUFFERED:
        try:
            array = _of_buffer(np.array(op.attributes["value"]))
        except (TypeError, ValueError):
            array = _from_text(op, shape)
    else:
        array = _from_text(op, shape)
    array = np.ascontiguousarray(array).reshape(shape.static_dims)
    array.flags.writeable = False
    return Literal(shape, array)


def splat(op: Any, shape: Shape) -> Literal | None:
    """Return the one value that the constant `op` repeats, as a scalar, if it does."""
    if not shape.dims or shape.size == 0:
        return None
    scalar = Shape.array(shape.dtype, ())
    if shape.dtype.is_complex:
        # The bindings do not know dense complex elements: the text shows whether there are several.
        text = _text(op)
        return _make(_numbers(text, scalar), scalar) if text.startswith("(") else None
    value = op.attributes["value"]
    if not getattr(value, "is_splat", False):
        return None
    if shape.dtype.name in _BUFFERED:
        # A view: MLIR stores one element, a copy would be as large as the constant.
        return _make(_of_buffer(np.asarray(value).reshape(-1)[:1]), scalar)
    return _make(_numbers(_text(op), scalar), scalar)


def _make(array: np.ndarray[Any, Any], shape: Shape) -> Literal:
    array = np.array(array.reshape(()), order="C")
    array.flags.writeable = False
    return Literal(shape, array)


def _of_buffer(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return elements of MLIR's buffer, where a truth value may be any byte."""
    return array.view(np.uint8) != 0 if array.dtype == np.bool_ else array


def _text(op: Any) -> str:
    text = op.get_asm(use_local_scope=True, large_elements_limit=None)
    found = _BODY.search(text)
    if found is None:
        raise UnsupportedError(
            f"a constant that is not dense elements: {text[:80]}",
            code="INGOT0351",
            hint="resources of MLIR files are not read; write the constant as dense elements",
        )
    return found.group(1)


def _from_text(op: Any, shape: Shape) -> np.ndarray[Any, Any]:
    numbers = _numbers(_text(op), shape)
    if numbers.size == 1 and shape.dims:
        return np.broadcast_to(numbers, shape.static_dims)
    return numbers


def _numbers(text: str, shape: Shape) -> np.ndarray[Any, Any]:
    """Return the elements in the text, in order."""
    storage = shape.dtype.numpy
    raw = _BYTES.fullmatch(text)
    if raw is not None:
        return np.frombuffer(bytes.fromhex(raw.group(1)), storage)
    words = _ELEMENT.findall(text)
    if shape.dtype.kind in _INTEGERS:
        return np.array([int(word, 0) for word in words], np.int64).astype(storage)
    if shape.dtype.is_complex:
        part = np.dtype(np.float32 if shape.dtype.bits == 64 else np.float64)
        return _floats(words, part).view(storage)
    if shape.dtype.kind is Kind.PRED:
        return np.array([word == "true" for word in words], storage)
    return _floats(words, storage)


def _floats(words: list[str], storage: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return numbers; `0x…` is the bits of one (how MLIR writes infinities and NaNs)."""
    bits = np.dtype(f"uint{8 * storage.itemsize}")
    made = np.empty(len(words), storage)
    raw = made.view(bits)
    for index, word in enumerate(words):
        if word.startswith("0x"):
            raw[index] = int(word, 16)
        else:
            made[index] = rounded_to(storage, np.array(float(word)))
    return made

# SPDX-License-Identifier: Apache-2.0
"""Literals in HLO text: `{ { 1, 2 }, { 3, 4 } }`, `(1, nan)`, `nan(0x123)`, both ways.

Floats are written with the digits that XLA writes: the fewest significant digits of a fixed number
that read back to the same value. Reading checks the nesting against the shape, then converts all
elements at once, so large constants cost little per element. For the value `{...}`, which XLA
writes for large constants by default, a value is made up, with a warning, as XLA does. An array
without elements may have any number of rows: beyond a limit it is also written so.

Source: xla/util.cc (RoundTripFpToString), xla/hlo/parser/hlo_parser.cc (ParseLiteral).
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from ingot.formats.hlo_text.reader import SKIP, Reader
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, F64, DType, Kind, rounded_to
from ingot.hlo.literal import Array, Literal
from ingot.hlo.shape import Shape
from ingot.support.regex import regex

_COMMENT = regex(r"/\*(?>[^*]|\*(?!/))*+\*/")
_ELEMENT = regex(r"[^{},()\s_]++(?:\(0x[0-9a-fA-F]++\))?+")
_COMPLEX = regex(r"\(\s*+(@)\s*+,\s*+(@)\s*+\)".replace("@", _ELEMENT.pattern))
_NAN = regex(r"(-?)nan(?:\(0x([0-9a-fA-F]+)\))?$")
_SCALAR = regex(SKIP + f"({_COMPLEX.pattern}|{_ELEMENT.pattern})")
_ELIDED = regex(SKIP + r"\{\s*+\.\.\.\s*+\}")
_MOST_BYTES = 1 << 31
_MOST_EMPTY_ROWS = 1 << 10
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
_PARTS = {"c64": np.float32, "c128": np.float64}
# Significant digits: tried first, and always enough (max_digits10).
_DIGITS = {"f32": (6, 9), "f64": (15, 17)}
# NaN is one bit pattern here: it has no payload, and its sign bit is not free.
_SINGLE_NAN = {"f8e4m3fn", "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e8m0fnu"}


# ---- reading


def read_literal(reader: Reader, shape: Shape) -> Literal:
    """Take a literal of `shape`."""
    if shape.is_tuple:
        return _read_tuple(reader, shape)
    start = reader.skip()
    if not shape.is_array:
        reader.fail(f"a constant cannot be {shape}", code="INGOT0106")
    if any(isinstance(size, Dim) for size in shape.dims):
        reader.fail(f"a constant of symbolic size {shape}", code="INGOT0106")
    if reader.take(_ELIDED) is not None:
        _check_bytes(reader, shape, start)
        return Literal(shape, _made_up(shape))
    if shape.dims and reader.at("{"):
        return Literal(shape, _array(reader, shape, reader.raw_value(), start))
    found = reader.take(_SCALAR)
    if found is None:
        reader.fail(f"expected a number, found {reader.found()}", code="INGOT0106")
    # XLA takes one number for an array too: as the first element, all others being zero.
    first = _array(reader, Shape.array(shape.dtype, ()), found.group(1), start)
    _check_bytes(reader, shape, start)
    value = np.zeros(shape.static_dims, first.dtype)
    value.reshape(-1)[:1] = first
    value.flags.writeable = False
    return Literal(shape, value)


def _check_bytes(reader: Reader, shape: Shape, at: int) -> None:
    """Refuse a constant that is far larger than its text: such a text is a mistake."""
    size = math.prod(shape.static_dims) * np.dtype(shape.dtype.numpy).itemsize
    if size > _MOST_BYTES:
        message = f"a constant {shape} of {size} bytes is not in the text"
        hint = "broadcast a scalar constant instead"
        reader.fail(message, at=at, code="INGOT0106", hint=hint)


def _read_tuple(reader: Reader, shape: Shape) -> Literal:
    reader.expect("(", "before the elements of the tuple")
    elements: list[Literal] = []
    for number, element in enumerate(shape.elements):
        if number:
            reader.expect(",", "between the elements of the tuple")
        # XLA's long form repeats the element's shape.
        reader.take(_ELEMENT_SHAPE)
        elements.append(read_literal(reader, element))
    reader.expect(")", "after the elements of the tuple")
    return Literal(shape, None, tuple(elements))


_ELEMENT_SHAPE = regex(SKIP + r"[a-z]\w*+\[[\d,]*+\](?:\{[\d,]*+\})?+")


MADE_UP = "INGOT0107"
"""Code of the warning that a constant's value is not in the text."""


def _made_up(shape: Shape) -> Array:
    """Return made-up values for a constant that is not in the text, as XLA makes them."""
    count, itemsize = math.prod(shape.static_dims), np.dtype(shape.dtype.numpy).itemsize
    if count:
        warnings.warn(
            f"{MADE_UP}: the value of a constant {shape} is not in the text ({{...}}): it is made "
            "up, as XLA does. Dump the module with XLA_FLAGS=--xla_dump_large_constants, or print "
            "it with print_large_constants",
            stacklevel=2,
        )
    if shape.dtype.kind is Kind.PRED:
        value = (np.arange(count) // 4 % 2 == 1) & (np.arange(count) % 4 == 0)
    elif shape.dtype.bits < 8:
        value = (np.arange(count) % 2).astype(shape.dtype.numpy)
    else:
        words = np.arange((count * itemsize + 3) // 4, dtype=np.uint32)
        value = words.view(np.uint8)[: count * itemsize].view(shape.dtype.numpy)
    value = value.reshape(shape.static_dims)
    value.flags.writeable = False
    return value


def _array(reader: Reader, shape: Shape, text: str, start: int) -> Array:
    text = _COMMENT.sub("", text) if "/*" in text else text
    dims = shape.static_dims
    count = math.prod(dims)
    if shape.dtype.is_complex:
        texts = [part for pair in _COMPLEX.findall(text) for part in pair]
        outline, found = _COMPLEX.sub("x", text), len(texts) // 2
    else:
        texts = _ELEMENT.findall(text)
        outline, found = _ELEMENT.sub("x", text), len(texts)
    if found != count:
        message = f"{count} elements are needed for {shape}, found {found}"
        reader.fail(message, at=start, code="INGOT0106")
    # XLA skips commas anywhere.
    if count and "".join(outline.replace(",", " ").split()) != _outline(dims):
        reader.fail(f"the braces do not fit {shape}", at=start, code="INGOT0106")
    try:
        flat = _elements(texts, shape.dtype)
        array = np.ascontiguousarray(flat).reshape(dims)
    except (ValueError, OverflowError, KeyError) as error:
        _refuse_element(reader, shape, texts, start, error)
    array.flags.writeable = False
    return array


def _outline(dims: Iterable[int]) -> str:
    """Return the braces of a literal, with `x` for every element."""
    outline = "x"
    for size in reversed(tuple(dims)):
        outline = "{" + outline * size + "}"
    return outline


def _elements(texts: list[str], element: DType) -> Array:
    """Convert texts of elements (real and imaginary parts alternate for complex types)."""
    if element.kind is Kind.PRED:
        return np.array([_BOOLEANS[text] for text in texts], np.bool_)
    if element.is_integer:
        return _integers(texts, element)
    if element.is_complex:
        return _floats(texts, _PARTS[element.name]).view(element.numpy)
    return _floats(texts, element.numpy, element)


def _integers(texts: list[str], element: DType) -> Array:
    values = [int(text) for text in texts]
    low = -(1 << (element.bits - 1)) if element.is_signed else 0
    high = low + (1 << element.bits) - 1
    if element.bits == 64 and not element.is_signed:
        values = [value & high if -(1 << 63) <= value < 0 else value for value in values]
    if values and not (low <= min(values) and max(values) <= high):
        raise OverflowError(f"values of {element} lie between {low} and {high}")
    wide = np.int64 if element.is_signed else np.uint64
    return np.array(values, wide).astype(element.numpy)


def _floats(texts: list[str], storage: Any, element: DType | None = None) -> Array:
    plain: list[float] = []
    special: list[tuple[int, re.Match[str]]] = []
    for number, text in enumerate(texts):
        if "nan" in text and (found := _NAN.match(text)) is not None:
            special.append((number, found))
            plain.append(math.nan)
        else:
            plain.append(float(text))
    wide = np.array(plain, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        array = rounded_to(storage, wide)
    _check_range(texts, wide, array.astype(np.float64))
    for number, found in special:
        _set_nan(array[number : number + 1], found, element)
    return array


def _check_range(texts: list[str], wide: Array, narrow: Array) -> None:
    """Refuse numbers that the type does not hold: too great, or infinities where there are none."""
    for number in np.flatnonzero(~np.isnan(wide) & (np.isinf(wide) | ~np.isfinite(narrow))):
        if wide[number] != narrow[number] or "inf" not in texts[number].lower():
            raise ValueError(f"{texts[number]} is out of range")


def _set_nan(number: Array, found: re.Match[str], element: DType | None) -> None:
    negative, payload = found.groups()
    width = 8 * number.itemsize
    bits = number.view(f"u{number.itemsize}")
    if element is not None and element.name == "f4e2m1fn":
        number[0] = -0.0  # as XLA converts a NaN to it
        return
    if element is not None and element.name in _SINGLE_NAN:
        if payload:
            raise ValueError(f"{element} has no nan payload")
        if negative and element.name == "f8e4m3fn":
            bits |= 1 << (width - 1)
        return
    mantissa = element.mantissa if element is not None else {32: 23, 64: 52}[width]
    bits[0] = _nan_bits(found, mantissa, width)


def _nan_bits(found: re.Match[str], mantissa: int, width: int) -> int:
    negative, payload = found.groups()
    field = int(payload, 16) if payload else 1 << (mantissa - 1)
    if not 0 < field < 1 << mantissa:
        raise ValueError(f"nan payload 0x{payload} does not fit into {mantissa} bits")
    exponent = ((1 << (width - 1 - mantissa)) - 1) << mantissa
    return (int(bool(negative)) << (width - 1)) | exponent | field


def _refuse_element(
    reader: Reader, shape: Shape, texts: list[str], start: int, error: Exception
) -> NoReturn:
    """Point at the first element that does not convert."""
    matches = _ELEMENT.finditer(reader.text, start)
    for text in texts:
        # Comments are not in `texts`: search on for this text.
        at = next((match.start() for match in matches if match.group() == text), start)
        try:
            _elements([text], _part_of(shape.dtype))
        except (ValueError, OverflowError, KeyError):
            message = f"'{text}' is not a value of {shape.dtype}"
            reader.fail(message, at=at, code="INGOT0106")
    reader.fail(f"{shape}: {error}", at=start, code="INGOT0106")


def _part_of(element: DType) -> DType:
    return {"c64": F32, "c128": F64}.get(element.name, element)


# ---- writing


def write_literal(literal: Literal) -> str:
    """Return the text of a literal, in full."""
    if literal.shape.is_tuple:
        return "( " + ", ".join(write_literal(element) for element in literal.elements) + " )"
    texts = _texts(literal.value.reshape(-1), literal.shape.dtype)
    dims = literal.value.shape
    if not dims:
        scalar = texts[0]
        return (
            {"1": "true", "0": "false"}[scalar] if literal.shape.dtype.kind is Kind.PRED else scalar
        )
    return _nested(texts, dims)


def _nested(texts: list[str], dims: tuple[int, ...]) -> str:
    if len(dims) == 1:
        return "{" + ", ".join(texts) + "}"
    if 0 in dims and math.prod(dims[: dims.index(0)]) > _MOST_EMPTY_ROWS:
        return "{...}"
    rows = texts
    for dim in range(len(dims) - 1, -1, -1):
        size = dims[dim]
        # XLA puts no blanks around a single innermost element.
        blank = "" if dim == len(dims) - 1 and size <= 1 else " "
        rows = [
            "{" + blank + ", ".join(rows[row * size : (row + 1) * size]) + blank + "}"
            for row in range(math.prod(dims[:dim]))
        ]
    return rows[0]


def _texts(flat: Array, element: DType) -> list[str]:
    if element.kind is Kind.PRED:
        return ["1" if value else "0" for value in flat.tolist()]
    if element.is_integer:
        return [str(int(value)) for value in flat]
    if element.is_complex:
        parts = float_texts(flat.view(_PARTS[element.name]), "f32" if flat.itemsize == 8 else "f64")
        return [f"({a}, {b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return float_texts(flat, element.name, element.mantissa)


def float_texts(flat: Array, name: str, mantissa: int = 0) -> list[str]:
    """Return XLA's text of each float of the element type `name`."""
    mantissa = mantissa or {"f32": 23, "f64": 52}.get(name, 0)
    few, enough = _DIGITS.get(name, (0, math.ceil(1 + (mantissa + 1) * math.log10(2))))
    with np.errstate(invalid="ignore"):
        values = flat.astype(np.float64)
    texts = [f"%.{few or enough}g" % value for value in values.tolist()]
    if few or name == "f8e8m0fnu":
        # Two digits of 2^-127 would be read as 2^-126: what lies above the least is rounded up.
        more = enough if few else 17
        with np.errstate(over="ignore", invalid="ignore"):
            again = np.array(texts, np.float64).astype(flat.dtype)
        for number in np.flatnonzero((again != flat) & ~np.isnan(values)):
            texts[number] = f"%.{more}g" % values[number]
    # XLA writes `-0`, which it reads back as +0; `-0.0` it reads right.
    texts = ["-0.0" if text == "-0" else text for text in texts]
    for number in np.flatnonzero(np.isnan(values)):
        texts[number] = _nan_text(flat[number : number + 1], name, mantissa)
    return texts


def _nan_text(value: Array, name: str, mantissa: int) -> str:
    width = 8 * value.itemsize
    bits = int(value.view(f"u{value.itemsize}")[0])
    sign = "-" if bits >> (width - 1) and name != "f8e8m0fnu" else ""
    field = bits & ((1 << mantissa) - 1)
    if name in _SINGLE_NAN or field == 1 << (mantissa - 1):
        return sign + "nan"
    return f"{sign}nan(0x{field:x})"

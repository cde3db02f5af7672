# SPDX-License-Identifier: Apache-2.0
"""Shapes, layouts and literals of the proto, both ways.

A literal's elements are in the order of its layout, minor first; types under a byte take a byte
each. The proto cannot hold symbolic sizes.

Source: xla/xla_data.proto (ShapeProto, LayoutProto, LiteralProto), xla/literal.cc.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ingot.formats.hlo_proto.wire import Message, broken
from ingot.hlo.dtype import DTYPES, DType, Kind
from ingot.hlo.literal import Array, Literal
from ingot.hlo.shape import Layout, Shape
from ingot.support.diagnostics import UnsupportedError
from ingot.support.regex import regex

# PrimitiveType of xla_data.proto.
_TYPES = {
    "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9,
    "f16": 10, "f32": 11, "f64": 12, "tuple": 13, "opaque": 14, "c64": 15, "bf16": 16, "token": 17,
    "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21, "u4": 22, "f8e4m3b11fnuz": 23,
    "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29, "s1": 30,
    "u1": 31, "f4e2m1fn": 32, "f8e8m0fnu": 33,
}  # fmt: skip
_BUFFER = 34
_NAMES = {number: name for name, number in _TYPES.items()}
_SUFFIX = regex(r"([TESL])((?:\([\d,]*\))+)")
_GROUP = regex(r"\(([\d,]*)\)")


def type_number(element: DType) -> int:
    """Return the PrimitiveType of an element type."""
    return _TYPES[element.name]


# ---- shapes


def read_shape(message: Message) -> Shape:
    """Return the shape of a ShapeProto.

    Raises:
        ParseError: its sizes or its layout are none (INGOT0122).
        UnsupportedError: its element type is not known (INGOT0351).
    """
    number = message.get("element_type", 0)
    if number == _BUFFER:
        held = [read_shape(part) for part in message.get("tuple_shapes", ())]
        if len(held) != 1 or not held[0].is_array:
            raise broken("a buffer holds one array")
        return replace(held[0], is_buffer=True)
    name = _NAMES.get(number)
    if name is None:
        raise UnsupportedError(f"element type {number} of the proto is not known", code="INGOT0351")
    if name == "tuple":
        return Shape.tuple(tuple(read_shape(part) for part in message.get("tuple_shapes", ())))
    element = DTYPES[name]
    if element.kind is Kind.OTHER:
        return Shape(element)
    dims = tuple(message.get("dimensions", ()))
    bounded = tuple(message.get("is_dynamic_dimension", ()))
    if any(size < 0 for size in dims):
        raise broken(f"a shape has the sizes {list(dims)}")
    if bounded and len(bounded) != len(dims):
        raise broken(f"a shape of {len(dims)} dimensions says of {len(bounded)} which are dynamic")
    layout = _read_layout(message["layout"], len(dims)) if "layout" in message else None
    plain = Shape.array(element, dims, layout)
    return Shape(element, dims, plain.layout, (), bounded) if any(bounded) else plain


def _read_layout(message: Message, rank: int) -> Layout:
    order = tuple(message.get("minor_to_major", ()))
    if sorted(order) != list(range(rank)):
        raise broken(f"the layout {list(order)} does not order {rank} dimensions")
    suffix = ""
    tiles = message.get("tiles", ())
    if tiles:
        suffix += "T" + "".join(f"({_join(tile.get('dimensions', ()))})" for tile in tiles)
    for letter, key, default in _LAYOUT_NUMBERS:
        value = message.get(key, default)
        if value != default:
            suffix += f"{letter}({value})"
    return Layout(order, suffix)


# Letter of the text, field, value that is not written in text.
_LAYOUT_NUMBERS = (
    ("L", "tail_padding_alignment_in_elements", 1),
    ("E", "element_size_in_bits", 0),
    ("S", "memory_space", 0),
)


def _join(numbers: Any) -> str:
    return ",".join(str(number) for number in numbers)


def write_shape(shape: Shape) -> Message:
    """Return the ShapeProto of a shape."""
    if shape.is_buffer:
        held = write_shape(replace(shape, is_buffer=False))
        return {"element_type": _BUFFER, "tuple_shapes": [held]}
    message: Message = {"element_type": type_number(shape.dtype)}
    if shape.is_tuple:
        message["tuple_shapes"] = [write_shape(part) for part in shape.elements]
    if not shape.is_array:
        return message
    dims = shape.static_dims
    message["dimensions"] = list(dims)
    message["is_dynamic_dimension"] = list(shape.bounded or (False,) * len(dims))
    message["layout"] = _write_layout(shape.layout or Layout.row_major(len(dims)))
    return message


def _write_layout(layout: Layout) -> Message:
    message: Message = {
        "minor_to_major": list(layout.minor_to_major),
        "tail_padding_alignment_in_elements": 1,
    }
    keys = {letter: key for letter, key, _ in _LAYOUT_NUMBERS}
    for letter, groups in _SUFFIX.findall(layout.suffix):
        numbers = [
            [int(part) for part in group.split(",") if part] for group in _GROUP.findall(groups)
        ]
        if letter == "T":
            message["tiles"] = [{"dimensions": group} for group in numbers]
        else:
            message[keys[letter]] = numbers[0][0]
    return message


def program_shape(parameters: list[tuple[str, Shape]], result: Shape) -> Message:
    """Return the ProgramShapeProto of a computation."""
    return {
        "parameters": [write_shape(shape) for _, shape in parameters],
        "result": write_shape(result),
        "parameter_names": [name for name, _ in parameters],
    }


# ---- literals

# Element types whose field holds numbers; the others hold bytes.
_LISTED = frozenset(("pred", "s32", "s64", "u32", "u64", "f32", "f64", "c64", "c128"))


def read_literal(message: Message) -> Literal:
    """Return the literal of a LiteralProto.

    Raises:
        ParseError: its elements are not those of its shape (INGOT0122).
    """
    return _literal(message, read_shape(message.get("shape", {})))


def _literal(message: Message, shape: Shape) -> Literal:
    if shape.is_tuple:
        parts = [read_literal(part) for part in message.get("tuple_literals", ())]
        if [part.shape for part in parts] != [_plain(element) for element in shape.elements]:
            raise broken(f"the elements of a literal are not those of {shape}")
        return Literal.tuple(tuple(parts))
    if not shape.is_array or shape.is_buffer:
        raise broken(f"a literal cannot be {shape}")
    flat = _read_elements(message.get(f"{shape.dtype.name}s", b""), shape)
    order = _physical_order(shape)
    physical = flat.reshape([shape.static_dims[dim] for dim in order])
    array = np.array(physical.transpose(np.argsort(order)) if order else physical, order="C")
    array.flags.writeable = False
    return Literal(Shape.array(shape.dtype, shape.dims), array)


def _plain(shape: Shape) -> Shape:
    """Return a shape as a literal has it: row-major, with actual sizes."""
    if shape.is_tuple:
        return Shape.tuple(tuple(map(_plain, shape.elements)))
    return Shape.array(shape.dtype, shape.dims) if shape.is_array else shape


def _physical_order(shape: Shape) -> list[int]:
    """Return the dimensions in memory order, major first."""
    layout = shape.layout
    return list(reversed(layout.minor_to_major)) if layout is not None else list(range(shape.rank))


def _read_elements(data: Any, shape: Shape) -> Array:
    """Return the elements of an array, which the proto has as numbers or as bytes."""
    element = shape.dtype
    storage, is_listed = element.numpy, element.name in _LISTED
    each = (2 if element.is_complex else 1) if is_listed else np.dtype(storage).itemsize
    count = math.prod(shape.static_dims)
    if len(data) != count * each:
        raise broken(f"a literal {shape} needs {count} elements, not {len(data) / each:g}")
    if is_listed:
        if element.is_complex:
            part = np.float32 if element.bits == 64 else np.float64
            return np.array(data or [], part).view(storage)
        return np.array(data or [], storage)
    if element.bits < 8 and element.is_integer:
        return np.frombuffer(data, np.uint8).astype(storage)
    return np.frombuffer(data, np.uint8).view(storage)


def write_literal(literal: Literal) -> Message:
    """Return the LiteralProto of a literal, row-major."""
    message: Message = {"shape": write_shape(literal.shape)}
    if literal.shape.is_tuple:
        message["tuple_literals"] = [write_literal(part) for part in literal.elements]
        return message
    element, array = literal.shape.dtype, literal.value
    order = _physical_order(literal.shape)
    flat = np.ascontiguousarray(array.transpose(order) if order else array).reshape(-1)
    message[f"{element.name}s"] = _write_elements(flat, element)
    return message


def _write_elements(flat: Array, element: DType) -> Any:
    if element.name in _LISTED:
        if element.is_complex:
            flat = flat.view(np.float32 if element.bits == 64 else np.float64)
        return flat.tolist()
    if element.bits < 8 and element.is_integer:
        wide = flat.astype(np.int8) & ((1 << element.bits) - 1)
        return wide.astype(np.uint8).tobytes()
    return flat.tobytes()

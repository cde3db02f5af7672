# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format, for the messages of `schema`: bytes to dictionaries and back.

A message is a dictionary of its fields that are set; `*` fields are lists. This is 150 lines rather
than the `protobuf` package because every framework registers XLA's messages in that package's one
pool under a version of its own (TensorFlow's clash with any other copy), and because the table of
fields is then something to read.

Source: protobuf.dev/programming-guides/encoding.

Example:
    >>> decode(encode({"name": "f", "id": -1}, "HloModuleProto"), "HloModuleProto")
    {'name': 'f', 'id': -1}
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ingot.formats.hlo_proto.schema import Field, message_types
from ingot.support.diagnostics import ParseError, UnsupportedError

Message = dict[str, Any]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGNED = frozenset(("int32", "int64", "enum"))
_NARROW = frozenset(("int32", "enum"))
_VARINTS = _SIGNED | {"uint32", "uint64", "bool"}
# Fixed-width types: wire type, NumPy's name of packed elements.
_FIXED = {"float": (_FIXED32, "<f4"), "double": (_FIXED64, "<f8")}
_MOST_NESTED = 100
_WORD = (1 << 64) - 1


def broken(why: str) -> ParseError:
    """Return the refusal of a proto, for this reason."""
    return ParseError(
        f"this is no HLO proto: {why}",
        code="INGOT0122",
        hint="it must be a serialized HloModuleProto, HloProto or HloSnapshot",
    )


# ---- reading


def decode(data: bytes | memoryview, type_name: str) -> Message:
    """Return the message of type `type_name` that `data` holds; unknown fields are skipped.

    Raises:
        ParseError: `data` is not of protobuf's format (INGOT0122).
    """
    message: Message = {}
    _decode_into(message, memoryview(data), type_name, 0)
    return message


def _decode_into(message: Message, data: memoryview, type_name: str, depth: int) -> None:
    """Add the fields of `data` to a message, whose parts may be spread over several fields."""
    if depth > _MOST_NESTED:
        raise broken("messages are nested too deep")
    fields = message_types()[type_name].by_number
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        wire, field = tag & 7, fields.get(tag >> 3)
        value, position = _value(data, position, wire)
        if field is not None:
            _store(message, field, wire, value, depth)
        elif tag >> 3 == 0:
            raise broken("a field has the number 0")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    try:
        first = data[position]
        if first < 0x80:
            return first, position + 1
        second = data[position + 1]
        if second < 0x80:  # nearly all end here at the latest
            return first & 0x7F | second << 7, position + 2
        result = shift = 0
        while True:
            byte = data[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result, position
            shift += 7
            if shift > 63:
                raise broken("a number is too long")
    except IndexError:
        raise broken("it ends inside a number") from None


def _value(data: memoryview, position: int, wire: int) -> tuple[Any, int]:
    """Return the raw value of a field, and where the next field begins."""
    if wire == _VARINT:
        return _varint(data, position)
    if wire == _BYTES:
        size, position = _varint(data, position)
    elif wire in (_FIXED32, _FIXED64):
        size = 4 if wire == _FIXED32 else 8
    else:
        raise broken(f"wire type {wire} does not exist")
    if size > len(data) - position:
        raise broken("it ends inside a field")
    return data[position : position + size], position + size


def _store(message: Message, field: Field, wire: int, raw: Any, depth: int) -> None:
    packed = field.repeated and wire == _BYTES and (field.type in _VARINTS or field.type in _FIXED)
    if packed:
        message.setdefault(field.name, []).extend(_unpack(raw, field))
        return
    if field.type in message_types():
        if wire != _BYTES:
            raise broken(f"field '{field.name}' is no {field.type}")
        held: Message = {} if field.repeated else message.setdefault(field.name, {})
        _decode_into(held, raw, field.type, depth + 1)
        if field.repeated:
            message.setdefault(field.name, []).append(held)
        return
    value = _one(raw, field, wire)
    if field.repeated:
        message.setdefault(field.name, []).append(value)
    else:
        message[field.name] = value


def _one(raw: Any, field: Field, wire: int) -> Any:
    kind = field.type
    if kind in _VARINTS:
        if wire != _VARINT:
            raise broken(f"field '{field.name}' is no number")
        return _number(raw, kind)
    if kind in _FIXED:
        if wire != _FIXED[kind][0]:
            raise broken(f"field '{field.name}' is no {kind}")
        return struct.unpack("<f" if kind == "float" else "<d", raw)[0]
    if wire != _BYTES:
        raise broken(f"field '{field.name}' is no {kind}")
    if kind == "bytes":
        return bytes(raw)
    return str(raw, "utf-8", "surrogateescape")


def _number(raw: int, kind: str) -> int | bool:
    """Return the number of a varint, cut to the field's width as protobuf has it."""
    if kind == "bool":
        return raw & _WORD != 0
    width = 64 if kind in ("int64", "uint64") else 32
    value = raw & ((1 << width) - 1)
    return value - (1 << width) if kind in _SIGNED and value >> (width - 1) else value


def _unpack(raw: memoryview, field: Field) -> list[Any]:
    if field.type in _FIXED:
        width = 4 if field.type == "float" else 8
        if len(raw) % width:
            raise broken(f"field '{field.name}' ends inside an element")
        return np.frombuffer(raw, _FIXED[field.type][1]).tolist()
    values: list[Any] = []
    position = 0
    while position < len(raw):
        value, position = _varint(raw, position)
        values.append(_number(value, field.type))
    return values


# ---- writing


def encode(message: Message, type_name: str) -> bytes:
    """Return the bytes of a message of type `type_name`; default values are left out.

    Raises:
        UnsupportedError: a number does not fit into its field of 32 bits.
    """
    out = bytearray()
    for field in message_types()[type_name].fields:
        value = message.get(field.name)
        if field.repeated:
            if value is not None and len(value):
                _write_all(out, field, value)
        elif value is not None and (field.explicit or not _is_default(value)):
            _write(out, field, value)
    return bytes(out)


def _is_default(value: Any) -> bool:
    # A message that is set is written, even if it is empty.
    return not isinstance(value, dict) and not value


def _write_all(out: bytearray, field: Field, values: Any) -> None:
    if field.type not in _VARINTS and field.type not in _FIXED:
        for value in values:
            _write(out, field, value)
        return
    packed = bytearray()
    if field.type in _FIXED:
        packed += np.asarray(values, _FIXED[field.type][1]).tobytes()
    else:
        for value in values:
            _put(packed, int(value))
    _put(out, field.number << 3 | _BYTES)
    _put(out, len(packed))
    out += packed


def _write(out: bytearray, field: Field, value: Any) -> None:
    kind = field.type
    if kind in _VARINTS:
        if kind in _NARROW and not -(1 << 31) <= value < 1 << 31:
            raise UnsupportedError(f"the proto's field '{field.name}' cannot hold {value}")
        _put(out, field.number << 3 | _VARINT)
        _put(out, int(value))
        return
    if kind in _FIXED:
        _put(out, field.number << 3 | _FIXED[kind][0])
        out += struct.pack("<f" if kind == "float" else "<d", value)
        return
    if kind == "string":
        value = value.encode("utf-8", "surrogateescape")
    elif kind != "bytes":
        value = encode(value, kind)
    _put(out, field.number << 3 | _BYTES)
    _put(out, len(value))
    out += value


def _put(out: bytearray, value: int) -> None:
    """Append a varint; a negative number takes ten bytes, as protobuf has it."""
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)

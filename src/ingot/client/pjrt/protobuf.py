"""The wire format of protocol buffers, as far as PJRT needs it: read fields, write fields.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingot.support.diagnostics import ParseError

Fields = dict[int, list[int | bytes]]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ParseError("a protocol buffer ends in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read_fields(data: bytes) -> Fields:
    r"""Return number -> values of every field of a message, in order.

    Example:
        >>> read_fields(b"\x08\x05\x12\x02hi")
        {1: [5], 2: [b'hi']}
    """
    fields: Fields = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _read_varint(data, at)
        elif kind == _BYTES:
            size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ParseError(f"a protocol buffer has a field of wire type {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def integer(fields: Fields, number: int, default: int = 0) -> int:
    """Return the last value of an integer field."""
    value = fields.get(number, [default])[-1]
    return value if isinstance(value, int) else int.from_bytes(value, "little")


def message(fields: Fields, number: int) -> bytes:
    """Return the bytes of a nested message, empty if it is not there."""
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def integers(fields: Fields, number: int) -> list[int]:
    """Return a repeated integer field, packed or not."""
    values: list[int] = []
    for value in fields.get(number, []):
        if isinstance(value, int):
            values.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = _read_varint(value, at)
            values.append(item)
    return values


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def write_field(number: int, value: int | bytes | Sequence[int]) -> bytes:
    """Return one field: an integer, bytes (or a message), or packed integers."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    data = value if isinstance(value, bytes) else b"".join(map(_varint, value))
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def write_fields(rows: Iterable[tuple[int, int | bytes | Sequence[int]]]) -> bytes:
    r"""Return a message.

    Example:
        >>> write_fields([(1, 5), (2, b"hi")])
        b'\x08\x05\x12\x02hi'
    """
    return b"".join(write_field(number, value) for number, value in rows)

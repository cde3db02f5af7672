# SPDX-License-Identifier: Apache-2.0
"""Checked fields of a request's header, for `session` and `supervisor`.

Invariant: any header gives a value of the requested type, or INGOT0522; a message shows no more of
it than fits on a line.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection
from typing import Any, TypeGuard, TypeVar

import numpy as np

from ingot.hlo.dtype import DTYPES
from ingot.support.text import did_you_mean
from ingot.tools.serving.framing import bad_request

Array = np.ndarray[Any, Any]
T = TypeVar("T")
Header = dict[str, Any]
_REQUIRED: Any = object()
_MAX_RANK = 64
"""Dimensions that NumPy's arrays may have."""
_MAX_SIZE = (1 << 63) - 1
_KINDS: dict[type[Any], str] = {str: "a string", bool: "true or false", list: "a list"}


def shortened(value: object) -> str:
    """Return the text of a header's value, shortened for a message."""
    return reprlib.repr(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; true and false are not."""
    return type(value) is int


def field(header: Header, name: str, kind: type[T], default: T = _REQUIRED) -> T:
    """Return a field of a header, which must have this type."""
    value = header.get(name, default)
    if value is _REQUIRED:
        raise bad_request(f'there is no "{name}"')
    if not isinstance(value, kind):
        raise bad_request(f'"{name}" is {shortened(value)}, not {_KINDS[kind]}')
    return value


def list_field(header: Header, name: str, default: list[Any] = _REQUIRED) -> list[Any]:
    """Return a field of a header that is a list."""
    return field(header, name, list, default)


def text_field(header: Header, name: str) -> bytes:
    """Return a text as UTF-8; b"" if there is none."""
    try:
        return field(header, name, str, "").encode()
    except UnicodeEncodeError as error:
        raise bad_request(
            f'"{name}" is not Unicode text: half of a surrogate pair at {error.start}',
            "send data that is not Unicode as payload",
        ) from None


def choice_field(header: Header, name: str, choices: Collection[str]) -> str:
    """Return a field that is one of `choices`; "" if there is none."""
    found = field(header, name, str, "")
    if found and found not in choices:
        hint = did_you_mean(found, choices) or f"one of: {', '.join(choices)}"
        raise bad_request(f'"{name}" is {shortened(found)}', hint)
    return found


def seconds_field(header: Header, name: str) -> float | None:
    """Return a time in seconds; None if there is none."""
    value = header.get(name)
    if value is None:
        return None
    if not (is_whole(value) or isinstance(value, float)) or not 0 < value < _MAX_SIZE:
        raise bad_request(f'"{name}" is {shortened(value)}, not a number of seconds')
    return float(value)


def element_types() -> dict[str, int]:
    """Return the element types that arrays may have, with their bytes."""
    rows = DTYPES.values()
    return {row.name: row.bytes for row in rows if row.storage is not None}


def take_array(row: Header, payload: bytes | memoryview, at: int) -> tuple[Array, int]:
    """Return a row's array, which begins at byte `at` of the payload, and the offset of its end."""
    name, shape = field(row, "dtype", str), list_field(row, "shape")
    found = DTYPES.get(name)
    if found is None or found.storage is None:
        hint = did_you_mean(name, element_types()) or "the request devices lists the types"
        raise bad_request(f"there is no element type {shortened(name)}", hint)
    if not all(is_whole(size) and 0 <= size <= _MAX_SIZE for size in shape):
        raise bad_request(f"a shape is a list of sizes, not {shortened(shape)}")
    if len(shape) > _MAX_RANK:
        raise bad_request(f"a shape of {len(shape)} dimensions has more than {_MAX_RANK}")
    count = math.prod(shape)
    end = at + count * found.bytes
    if end > len(payload):
        raise bad_request(
            f"{name}{shortened(shape)} ends at byte {end} of a payload of {len(payload)}"
        )
    array = np.frombuffer(payload, found.storage, count, at).reshape(_shape_of(shape, count))
    if name == "pred" and count and array.view(np.uint8).max() > 1:
        raise bad_request("a pred is a byte of 0 or 1, and this array has others")
    return array, end


def _shape_of(shape: list[int], count: int) -> list[int]:
    """Return a shape that NumPy supports: an array without elements may have larger sizes."""
    if not count and math.prod(size for size in shape if size) > _MAX_SIZE >> 4:
        raise bad_request(f"NumPy has no array of the shape {shortened(shape)}")
    return shape

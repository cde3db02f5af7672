# SPDX-License-Identifier: Apache-2.0
"""MLIR attributes to the values of the op table's attribute fields, by the field's codec.

Example: the `dimensions` of `transpose` are the op table's INTS, so MLIR's `permutation` is read
as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.formats.stablehlo.binding import mlir
from ingot.hlo.opdef import Codec
from ingot.support.diagnostics import ParseError
from ingot.support.regex import regex

# How MLIR prints an enumeration of StableHLO: `#stablehlo<comparison_direction LT>`.
_ENUMERATION = regex(r"#stablehlo<\w+ (\w+)>")
INT64 = range(-(1 << 63), 1 << 63)
"""The numbers of 64 bits."""

Groups = tuple[tuple[int, ...], ...]


def integers(attribute: Any) -> tuple[int, ...]:
    """Return the numbers of an integer, a dense array or dense elements (row-major)."""
    if hasattr(attribute, "value"):
        return (int(attribute.value),)
    if hasattr(attribute, "type") and not len(attribute):
        return ()
    return tuple(map(int, attribute))


def flags(attribute: Any) -> tuple[bool, ...]:
    """Return the truth values of a dense array or dense elements."""
    return tuple(bool(flag) for flag in attribute)


def rows(attribute: Any) -> Groups:
    """Return the rows of two-dimensional dense elements."""
    table = np.array(attribute)
    return tuple(tuple(int(number) for number in row) for row in table.tolist())


def groups(attribute: Any) -> Groups:
    """Return replica groups; -1 pads short ones."""
    return tuple(tuple(number for number in row if number >= 0) for row in rows(attribute))


def name(attribute: Any) -> str:
    """Return the text of an enumeration or of a string."""
    if hasattr(attribute, "value"):
        return str(attribute.value)
    text = str(attribute)
    found = _ENUMERATION.fullmatch(text)
    return found.group(1) if found is not None else text


def names(attribute: Any) -> tuple[str, ...]:
    """Return the texts of an array of enumerations, in lower case as HLO writes them."""
    return tuple(name(part).lower() for part in attribute)


def integer_of(given: Any, key: str) -> int:
    """Return the integer (or flag) under `key` of a dictionary that MLIR itself does not check.

    Raises:
        ParseError: it is missing, no integer, or one of more than 64 bits (INGOT0125).
    """
    found = getattr(given[key], "value", None) if key in given else None
    if not isinstance(found, int):
        raise _refused(given, key, "an integer")
    if found not in INT64:
        raise ParseError(f"the attribute '{key}' needs more than 64 bits", code="INGOT0125")
    return int(found)


def integers_of(given: Any, key: str) -> tuple[int, ...]:
    """Return the integers under `key` of a dictionary that MLIR itself does not check.

    Raises:
        ParseError: they are missing, or no integers (INGOT0125).
    """
    try:
        return integers(given[key])
    except (KeyError, TypeError, ValueError):
        raise _refused(given, key, "integers") from None


def text_of(given: Any, key: str) -> str:
    """Return the text under `key` of a dictionary that MLIR itself does not check.

    Raises:
        ParseError: it is missing, or no text (INGOT0125).
    """
    found = getattr(given[key], "value", None) if key in given else None
    if not isinstance(found, str):
        raise _refused(given, key, "a string")
    return found


def _refused(given: Any, key: str, what: str) -> ParseError:
    found = f"is {given[key]}, and not {what}" if key in given else "is missing"
    return ParseError(f"the attribute '{key}' {found}", code="INGOT0125")


def structure(attribute: Any, kind: str) -> Any:
    """Return an attribute of StableHLO's as the bindings' class `kind`, which has its fields."""
    return getattr(mlir().stablehlo, kind)(attribute)


def shardy(attribute: Any, kind: str) -> Any:
    """Return an attribute of Shardy's as the bindings' class `kind`."""
    return getattr(mlir().sdy, kind)(attribute)


def channel(attribute: Any) -> int:
    """Return an integer, or the number of a channel handle."""
    if hasattr(attribute, "value"):
        return int(attribute.value)
    return structure(attribute, "ChannelHandle").handle


def pairs(attribute: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Return (low, high) per dimension of a padding; nothing pads when there is no attribute."""
    if attribute is None:
        return ((0, 0),) * count
    return tuple((row[0], row[1]) for row in rows(attribute))


READERS: dict[Codec, Callable[[Any], Any]] = {
    Codec.INT: channel,
    Codec.FLOAT: lambda attribute: float(attribute.value),
    Codec.BOOL: lambda attribute: bool(getattr(attribute, "value", True)),  # or a unit
    Codec.NAME: name,
    Codec.STRING: name,
    Codec.INTS: integers,
    Codec.NAMES: names,
    Codec.GROUPS: groups,
    Codec.PAIRS: groups,
}

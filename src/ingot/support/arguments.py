# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of Ingot's Python functions: types, and text that cannot be encoded.

Public functions use them, so that wrong arguments do not fail somewhere inside. An `ArgumentError`
is one of Ingot's errors, and also a `TypeError`.

Example:
    >>> require_type(3, str, "the text")
    Traceback (most recent call last):
    ...
    ingot.support.diagnostics.ArgumentError: error[INGOT0513]: the text is of type int, not str
"""

from __future__ import annotations

from ingot.support.diagnostics import ArgumentError


def require_type(value: object, kinds: type | tuple[type, ...], what: str, hint: str = "") -> None:
    """Check the type of an argument.

    Args:
        value: the argument.
        kinds: the types that it may have.
        what: its description in the message.
        hint: what to do instead.

    Raises:
        ArgumentError: INGOT0513, it has another type.
    """
    if not isinstance(value, kinds):
        listed = kinds if isinstance(kinds, tuple) else (kinds,)
        names = ", ".join(kind.__name__ for kind in listed[:-1])
        names += " or " * bool(names) + listed[-1].__name__
        raise ArgumentError(f"{what} is of type {type(value).__name__}, not {names}", hint=hint)


def bytes_of(value: object, what: str) -> bytes:
    """Return bytes that a caller gave as bytes, a bytearray or a memoryview."""
    require_type(value, (bytes, bytearray, memoryview), what)
    return value if isinstance(value, bytes) else bytes(value)  # pyright: ignore[reportArgumentType]


def encodable(text: str) -> str:
    """Return a text that UTF-8 can hold: halves of surrogate pairs become question marks.

    Invalid UTF-8, which Python keeps as other surrogates, is not changed.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "".join("?" if _is_half(character) else character for character in text)
    return text


def _is_half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" and not "\udc80" <= character <= "\udcff"

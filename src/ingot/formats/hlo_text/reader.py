# SPDX-License-Identifier: Apache-2.0
"""The reader: a position in the text, the patterns taken there, and errors that point at it.

Everything that parses HLO text moves one `Reader` forward. There is no token list: each caller
takes the pattern that its grammar expects next, so that an instruction costs a handful of regular
expression matches. Patterns use possessive quantifiers and never backtrack, so the time is linear
in the text. Lines and columns are counted only when an error is made.

Example:
    >>> reader = Reader("  x = /* why */ 3")
    >>> reader.take(NAME).group(1), reader.accept("="), reader.integer()
    ('x', True, 3)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from ingot.support.diagnostics import IngotError, ParseError, Span
from ingot.support.regex import regex

SKIP = r"(?>\s+|/\*(?>[^*]|\*(?!/))*+\*/|//[^\n]*+)*+"
MAX_NESTING = 100
_LONGEST_LINE = 400
_LONGEST_NUMBER = 19

_SKIP = regex(SKIP)
NAME = regex(SKIP + r"%?([\w.\-]++)", re.ASCII)
WORD = regex(SKIP + r"([A-Za-z_][\w.\-]*+)")
STRING = regex(SKIP + r'"((?>[^"\\]|\\.)*+)"', re.DOTALL)
_DIGITS = regex(r"-?\d+", re.ASCII)
_INTEGER = regex(SKIP + r"(-?\d++)")
# Text between two brackets of a value that is kept as text.
_PLAIN = regex(r'(?>[^{}()\[\]"]|"(?>[^"\\]|\\.)*+")++', re.DOTALL)
# A value with no bracket: up to the comma or the end of the instruction.
_BARE = regex(r'(?>[^\s,{}()\[\]"]|"(?>[^"\\]|\\.)*+")++', re.DOTALL)
_BRACKETS = {"{": "}", "(": ")", "[": "]"}
_OCTAL_OR_CHARACTER = regex(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Reader:
    """A text and the current position in it.

    Attributes:
        text: the whole text.
        position: offset of the next character.
        source_name: the name of the text in errors.
    """

    __slots__ = ("position", "source_name", "text")

    def __init__(self, text: str, source_name: str = "<hlo>") -> None:
        self.text = text
        self.position = 0
        self.source_name = source_name

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move past `pattern` if it matches here."""
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def skip(self) -> int:
        """Move past blanks and comments; return the position."""
        found = _SKIP.match(self.text, self.position)
        if found is not None:
            self.position = found.end()
        return self.position

    def at(self, symbol: str) -> bool:
        """Whether `symbol` comes next."""
        return self.text.startswith(symbol, self.skip())

    def accept(self, symbol: str) -> bool:
        """Move past `symbol` when it comes next."""
        if not self.text.startswith(symbol, self.skip()):
            return False
        self.position += len(symbol)
        return True

    def expect(self, symbol: str, where: str = "") -> None:
        """Move past `symbol`, which must come next."""
        if not self.accept(symbol):
            self.fail(f"expected '{symbol}'{' ' + where if where else ''}, found {self.found()}")

    def integer(self) -> int:
        """Take an integer."""
        found = self.take(_INTEGER)
        if found is None:
            self.fail(f"expected an integer, found {self.found()}", at=self.skip())
        return self.to_integer(found.group(1), found.start(1))

    def to_integer(self, digits: str, at: int) -> int:
        """Return the 64-bit integer of `digits`."""
        if _DIGITS.fullmatch(digits) is None:
            self.fail(f"expected an integer, found '{digits}'", at=at)
        if len(digits) > _LONGEST_NUMBER + 1 or not -(1 << 63) <= int(digits) < 1 << 63:
            self.fail("this integer does not fit into 64 bits", at=at)
        return int(digits)

    def word(self, what: str) -> str:
        """Take an identifier that is `what`."""
        found = self.take(WORD)
        if found is None:
            self.fail(f"expected {what}, found {self.found()}", at=self.skip())
        return found.group(1)

    def name(self, what: str) -> str:
        """Take the name of `what`, with or without its `%`."""
        found = self.take(NAME)
        if found is None:
            self.fail(f"expected {what}, found {self.found()}", at=self.skip())
        return found.group(1)

    def string(self) -> str:
        """Take a quoted string, escapes resolved."""
        found = self.take(STRING)
        if found is None:
            self.fail(f"expected a string in quotes, found {self.found()}", at=self.skip())
        return unescape(found.group(1))

    def raw_value(self) -> str:
        """Take a value as text: something in balanced brackets, a string, or up to a comma."""
        start = self.skip()
        expected: list[str] = []
        while True:
            character = self.text[self.position : self.position + 1]
            if character in _BRACKETS and character:
                expected.append(_BRACKETS[character])
                self.position += 1
            elif expected and character == expected[-1]:
                expected.pop()
                self.position += 1
            elif self.take(_PLAIN if expected else _BARE) is None:
                break
        if expected:
            self.fail(f"'{expected[-1]}' is missing here", at=self.position)
        if self.position == start:
            self.fail(f"expected a value, found {self.found()}")
        return self.text[start : self.position]

    def found(self) -> str:
        """Return the text at the position, for a message."""
        start = self.skip()
        if start >= len(self.text):
            return "the end of the text"
        word = re.compile(r"[\w.\-%]{1,40}|.", re.DOTALL).match(self.text, start)
        return f"'{word.group()}'" if word is not None else "nothing"

    def span(self, at: int) -> Span:
        """Return the line and column of offset `at` in the text."""
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        end = len(self.text) if end < 0 else end
        line = self.text[start : min(end, max(at, start) + _LONGEST_LINE)]
        return Span(self.text.count("\n", 0, at) + 1, at - start + 1, line, self.source_name)

    def fail(
        self, message: str, *, at: int | None = None, code: str = "INGOT0101", hint: str = ""
    ) -> NoReturn:
        """Raise ParseError at offset `at` (default: here)."""
        span = self.span(self.position if at is None else at)
        raise ParseError(message, code=code, span=span, hint=hint)


def is_value(text: str) -> bool:
    """Whether `raw_value` reads a text as one value, so that it can be printed unchanged."""
    reader = Reader(text)
    try:
        return reader.raw_value() == text
    except ParseError:
        return False


def with_span(error: IngotError, reader: Reader, at: int) -> IngotError:
    """Return `error` with the position in the text, of the same class."""
    found = error.diagnostic
    if found.span is not None:
        return error
    return type(error)(replace(found, span=reader.span(at)))


def unescape(text: str) -> str:
    """Return the decoded inside of a quoted string (C escapes of UTF-8 bytes)."""
    if "\\" not in text:
        return text
    raw = _bytes_of(text)
    return _OCTAL_OR_CHARACTER.sub(_unescaped, raw).decode("utf-8", "surrogateescape")


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Half a surrogate pair is no character and no byte.
        return text.encode("utf-8", "replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    body = found.group(1)
    if body[:1] == b"x" and len(body) > 1:
        return bytes((int(body[1:], 16),))
    if body.isdigit() and body[0] < ord("8"):
        return bytes((int(body, 8) & 255,))
    return _ESCAPED.get(body, body)


def escape(text: str) -> str:
    """Return `text` as XLA writes it between quotes (C escapes; bytes beyond ASCII in octal)."""
    if text.isascii() and text.isprintable() and "\\" not in text and '"' not in text:
        return text
    named = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    raw = _bytes_of(text)
    return "".join(
        named.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw
    )

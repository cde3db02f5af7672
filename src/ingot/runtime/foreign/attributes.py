# SPDX-License-Identifier: Apache-2.0
"""Attributes of a custom call: the MLIR dictionary in its `backend_config`, with element types.

XLA writes the attributes of typed FFI calls as `{uplo = 76 : ui8, scale = 2.0 : f32}`. The value
is kept with its type, because a native handler is given both; a Python target gets the value alone.
Any other `backend_config` is a string that only its target can interpret.

Source: xla/ffi/attribute_map.cc; MLIR builtin attribute syntax.

Example:
    >>> parse_attributes('{uplo = 76 : ui8, sizes = array<i64: 1, 2>, name = "a"}')["sizes"]
    Attribute(value=(1, 2), type='i64')
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any

from ingot.support.diagnostics import ParseError
from ingot.support.records import record
from ingot.support.regex import regex

_TOKEN = regex(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    | (?P<word>[A-Za-z_][\w.$]*)
    | (?P<mark>[{}\[\]<>=:,])
    )""",
    re.VERBOSE,
)
_ESCAPE = regex(r"\\([0-9A-Fa-f]{2}|.)")
_FLOATS = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r"}


@record
class Attribute:
    """One attribute.

    Attributes:
        value: bool, int, float, str, tuple of numbers, or dict of attributes.
        type: MLIR's element type (`ui8`, `i64`, `f32`), or `string`, `bool`, `dictionary`, `unit`.
    """

    value: Any
    type: str


def parse_attributes(config: str) -> dict[str, Attribute]:
    """Return the attributes of a `backend_config`; none if it is empty.

    Raises:
        ParseError: INGOT0113, the text is not a dictionary.
    """
    return _Reader(config).dictionary() if config.strip() else {}


def plain_values(attributes: dict[str, Attribute]) -> dict[str, Any]:
    """Return the values without their types, nested dictionaries too."""
    return {
        name: plain_values(found.value) if found.type == "dictionary" else found.value
        for name, found in attributes.items()
    }


MAX_NESTING = 50
"""Nested dictionaries, at most."""


class _Reader:
    """Reads one dictionary from text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error(text[at : at + 20])
            self.tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            at = match.end()
        self.at = 0
        self.nesting = 0

    def error(self, found: str) -> ParseError:
        return ParseError(
            f"backend_config is no dictionary of attributes at '{found}'",
            code="INGOT0113",
            notes=(f"the text: {self.text}",),
        )

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        found = self.peek()
        if not found or (expected and found != expected):
            raise self.error(found)
        self.at += 1
        return found

    def skip(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self.at += 1
        return True

    def several(self, end: str, item: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        while not self.skip(end):
            if found:
                self.take(",")
            found.append(item())
        return found

    def dictionary(self) -> dict[str, Attribute]:
        self.take("{")
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error("{" * 10)
        found = dict(self.several("}", self.entry))
        self.nesting -= 1
        return found

    def entry(self) -> tuple[str, Attribute]:
        name = self.take()
        name = _unquoted(name) if name.startswith('"') else name
        return name, self.value() if self.skip("=") else Attribute(None, "unit")

    def value(self) -> Attribute:
        text = self.peek()
        if text == "{":
            return Attribute(self.dictionary(), "dictionary")
        if text.startswith('"'):
            return Attribute(_unquoted(self.take()), "string")
        if text in ("true", "false"):
            return Attribute(self.take() == "true", "bool")
        if text in ("array", "dense", "["):
            return self.array(self.take())
        return self.number()

    def number(self) -> Attribute:
        text = self.take()
        if not text[-1].isalnum() and not text.endswith("."):
            raise self.error(text)
        is_float = not text.lower().startswith(("0x", "-0x")) and bool(re.search(r"[.eE]", text))
        element = self.take() if self.skip(":") else "f64" if is_float else "i64"
        return Attribute(self.converted(text, element), element)

    def converted(self, text: str, element: str) -> Any:
        try:
            if element in _FLOATS and text.lower().startswith("0x"):
                number, bits = _FLOATS[element]
                return struct.unpack(number, struct.pack(bits, int(text, 16)))[0]
            return float(text) if element[0] in "fb" and element != "bool" else int(text, 0)
        except ValueError:
            raise self.error(text) from None

    def array(self, kind: str) -> Attribute:
        """Read what follows `array`, `dense` or `[`."""
        if kind == "[":
            items = self.several("]", self.number)
            return Attribute(tuple(i.value for i in items), items[0].type if items else "i64")
        self.take("<")
        if kind == "array":
            element = self.take()
            self.skip(":")
            texts = self.several(">", self.take)
            return Attribute(tuple(self.element(text, element) for text in texts), element)
        texts = self.several("]", self.take) if self.skip("[") else [self.take()]
        self.take(">")
        self.take(":")
        self.take("tensor")
        self.take("<")
        shape = self.take()
        while not self.skip(">"):
            shape += self.take()
        *sizes, element = shape.split("x")
        if not all(size.isdigit() for size in sizes):
            raise self.error(shape)
        count = math.prod(map(int, sizes))
        texts = texts * count if len(texts) == 1 else texts
        if len(texts) != count:
            raise self.error(shape)
        return Attribute(tuple(self.element(text, element) for text in texts), element)

    def element(self, text: str, element: str) -> Any:
        return text == "true" if text in ("true", "false") else self.converted(text, element)


def _unquoted(text: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code, 16)) if len(code) == 2 else _MEANINGS.get(code, code)

    return _ESCAPE.sub(meaning, text[1:-1])

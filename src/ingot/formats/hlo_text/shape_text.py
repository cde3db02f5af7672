# SPDX-License-Identifier: Apache-2.0
"""Shapes in HLO text: `f32[2,?n,<=8]{1,0:T(8,128)}`, tuples of them, and symbolic sizes.

Printing a shape is `Shape.to_string`; here is the other way. Array shapes are looked up by their
text first: a module has far fewer shapes than instructions. A shape without layout is row-major.
Symbolic sizes are `?n` or `?(4*n+floordiv(m,2))`, the text that `Dim` prints.

Example:
    >>> str(ShapeReader(Reader("(f32[?n,3], s32[])")).shape())
    '(f32[?n,3]{1,0}, s32[])'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from ingot.formats.hlo_text.reader import MAX_NESTING, SKIP, Reader
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DTYPES
from ingot.hlo.shape import Layout, Shape
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

ARRAY = regex(SKIP + r"([a-z]\w*+\[[^\[\]{}]*+\](?:\s*+\{[\d,\s]*+(?::[^{}]*+)?+\})?+)")
_PARTS = regex(r"(\w+)\[([^\]]*)\](?:\s*\{([\d,\s]*)(?::([^}]*))?\})?$")
_COMMENT = regex(r"/\*(?>[^*]|\*(?!/))*+\*/")
_SIZE = regex(SKIP + r"(-?\d++|\?[A-Za-z_][\w.]*+|\?(?=\())")
_OPERATOR = regex(SKIP + r"([+\-*])")
_ATOM = regex(SKIP + r"(\d++|[A-Za-z_][\w.]*+|\()")
_FUNCTIONS: dict[str, Callable[[int | Dim, int | Dim], int | Dim]] = {
    "floordiv": dim_math.floordiv,
    "mod": dim_math.mod,
    "max": dim_math.maximum,
    "min": dim_math.minimum,
}
_BUFFER = regex(SKIP + r"b\((?=\s*+[a-z]\w*+\[)")
_STARTS = (ARRAY, regex(SKIP + r"\("), _BUFFER)
_BARE = {"token": Shape.token(), "opaque": Shape.opaque()}


class ShapeReader:
    """Reads shapes and sizes from a reader; keeps the array shapes met so far by their text."""

    __slots__ = ("_known", "reader")
    ATOM: ClassVar[re.Pattern[str]] = _ATOM
    """A number, a name, or the parenthesis before a sum."""
    WHAT: ClassVar[str] = "a size"
    """What an error says was expected."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._known: dict[str, Shape] = {}

    def is_here(self) -> bool:
        """Whether a shape comes next."""
        reader = self.reader
        return any(start.match(reader.text, reader.position) for start in _STARTS)

    def shape(self, depth: int = 0) -> Shape:
        """Take a shape."""
        reader = self.reader
        found = reader.take(ARRAY)
        if found is not None:
            return self.known(found.group(1), found.start(1))
        if reader.take(_BUFFER) is not None:
            return self._buffer(depth)
        start = reader.skip()
        if not reader.accept("("):
            reader.fail(f"expected a shape, found {reader.found()}", at=start, code="INGOT0110")
        if depth >= MAX_NESTING:
            reader.fail("tuples are nested too deeply", at=start, code="INGOT0109")
        elements: list[Shape] = []
        while not reader.accept(")"):
            elements.append(self.shape(depth + 1))
            if not reader.accept(","):
                reader.expect(")", "after the elements of the tuple shape")
                break
        return Shape.tuple(tuple(elements))

    def _buffer(self, depth: int) -> Shape:
        """Take the text in `b(…)`."""
        at = self.reader.position
        held = self.shape(depth + 1)
        if not held.is_array:
            self.reader.fail("a buffer holds an array", at=at, code="INGOT0110")
        self.reader.expect(")", "after the shape of the buffer")
        return replace(held, is_buffer=True)

    def known(self, text: str, at: int) -> Shape:
        """Return the array shape that `text`, at offset `at`, says."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._array(text, at)
        return found

    def _array(self, text: str, at: int) -> Shape:
        reader = self.reader
        parts = _PARTS.match(_COMMENT.sub("", text))
        if parts is None:
            reader.fail(f"'{text}' is not a shape", at=at, code="INGOT0110")
        element, sizes, minor_to_major, suffix = parts.groups()
        if element in _BARE:
            return _BARE[element]
        found = DTYPES.get(element)
        if found is None or found.storage is None:
            reader.fail(
                f"unknown element type '{element}'",
                at=at,
                code="INGOT0110",
                hint=did_you_mean(element, DTYPES),
            )
        dims, bounded = self._dims(text, at + len(element) + 1) if sizes.strip() else ((), ())
        layout = Layout.row_major(len(dims))
        if minor_to_major is not None and (minor_to_major.strip() or suffix):
            layout = self._layout(minor_to_major, suffix or "", len(dims), at)
        return Shape(found, dims, layout, (), bounded if any(bounded) else ())

    def _dims(self, text: str, at: int) -> tuple[tuple[int | Dim, ...], tuple[bool, ...]]:
        """Read the sizes of the shape whose `[` is just before offset `at`."""
        inner = ShapeReader(Reader(self.reader.text, self.reader.source_name))
        inner.reader.position = at
        dims: list[int | Dim] = []
        bounded: list[bool] = []
        while True:
            bounded.append(inner.reader.accept("<="))
            size = inner.size()
            if isinstance(size, int) and size < 0:
                inner.reader.fail(f"size {size} is negative", at=at, code="INGOT0110")
            dims.append(size)
            if not inner.reader.accept(","):
                inner.reader.expect("]", "after the sizes")
                return tuple(dims), tuple(bounded)

    def _layout(self, minor_to_major: str, suffix: str, rank: int, at: int) -> Layout:
        digits = [part.strip() for part in minor_to_major.split(",")]
        order = tuple(self.reader.to_integer(part, at) for part in digits if part)
        if sorted(order) != list(range(rank)):
            self.reader.fail(
                f"layout {{{minor_to_major}}} does not order {rank} dimensions",
                at=at,
                code="INGOT0110",
            )
        return Layout(order, suffix)

    def size(self) -> int | Dim:
        """Take a size: an integer, `?n`, or `?(expression)`."""
        reader = self.reader
        found = reader.take(_SIZE)
        if found is None:
            hint = "name the size: ?n" if reader.at("?") else ""
            reader.fail(f"expected a size, found {reader.found()}", code="INGOT0110", hint=hint)
        text = found.group(1)
        if text == "?":
            reader.expect("(")
            size = self.sum()
            reader.expect(")", "after the size")
            return size
        if text[0] == "?":
            return Dim.symbol(text[1:])
        return reader.to_integer(text, found.start(1))

    def sum(self, depth: int = 0) -> int | Dim:
        """Take a size as `Dim` prints it: `4*n+floordiv(m,2)`."""
        reader = self.reader
        if depth >= MAX_NESTING // 2:
            reader.fail("this size is nested too deeply", code="INGOT0109")
        negative = reader.accept("-")
        total = self._factor(depth)
        total = -total if negative else total
        while (found := reader.take(_OPERATOR)) is not None:
            operator = found.group(1)
            if operator == "*":
                reader.fail("this size is not in normal form", at=found.start(1), code="INGOT0110")
            right = self._factor(depth)
            total = total + right if operator == "+" else total - right
        return total

    def _factor(self, depth: int) -> int | Dim:
        result = self._atom(depth)
        while self.reader.accept("*"):
            result = result * self._atom(depth)
        return result

    def _atom(self, depth: int) -> int | Dim:
        reader = self.reader
        found = reader.take(self.ATOM)
        if found is None:
            reader.fail(f"expected {self.WHAT}, found {reader.found()}", code="INGOT0110")
        text = found.group(1)
        if text == "(":
            inner = self.sum(depth + 1)
            reader.expect(")")
            return inner
        if text[0].isdigit():
            return reader.to_integer(text, found.start(1))
        if not reader.accept("("):
            return Dim.symbol(text)
        return self._function(text, found.start(1), depth)

    def _function(self, name: str, at: int, depth: int) -> int | Dim:
        reader = self.reader
        if name not in _FUNCTIONS:
            hint = did_you_mean(name, _FUNCTIONS)
            reader.fail(f"unknown function '{name}' of sizes", at=at, code="INGOT0110", hint=hint)
        left = self.sum(depth + 1)
        reader.expect(",")
        right = self.sum(depth + 1)
        reader.expect(")")
        if isinstance(right, int) and right < 1 and name in ("floordiv", "mod"):
            reader.fail(f"this size divides by {right}", at=at, code="INGOT0110")
        return _FUNCTIONS[name](left, right)

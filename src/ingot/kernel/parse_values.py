# SPDX-License-Identifier: Apache-2.0
"""Expressions in the text of a kernel: `v2 = f32 multiply(v0, v1)`, and what they refer to.

Half of `kernel.parse`, whose grammar is in `kernel.text`: names of values, indices, accesses and
attributes of ops. Invariant: names stand for expressions that were defined before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from ingot.formats.hlo_text.attribute_text import ParseContext, plan
from ingot.formats.hlo_text.reader import SKIP, Reader
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DTYPES, S64, DType
from ingot.hlo.opdef import NO_ATTRIBUTES, NoAttributes, OpDef, table
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.text import scalar_of
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

AXIS = regex(SKIP + r"(@[\w.]++)")
BUFFER = regex(SKIP + r"b(\d{1,9}+)(?!\w)")
_VALUE = regex(SKIP + r"v(\d{1,9}+)(?!\w)")
_DEFINITION = regex(SKIP + r"v(\d{1,9}+)\s*+=")
_OUTPUT = regex(SKIP + r"r(\d{1,9}+)\.(\d{1,9}+)(?!\w)")
_SCALAR = regex(SKIP + r"\(([^()\n]*+)\)")
_ATTRIBUTE = regex(SKIP + "," + SKIP + r"([\w\-]++)=")

_Item = TypeVar("_Item")


class IndexReader(ShapeReader):
    """Reads indices: sizes that axes and run-time values are in, too."""

    __slots__ = ()
    ATOM: ClassVar[re.Pattern[str]] = regex(
        SKIP + r"(\d++|@[\w.]++|\$\d{1,9}+(?!\w)|[A-Za-z_][\w.]*+)"
    )
    WHAT: ClassVar[str] = "an index"


class ValueReader:
    """Takes expressions; `values` are those that have a name by now."""

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`."""
        self.reader = reader
        self.indices = IndexReader(reader)
        self.values: dict[int, Expr] = {}
        self._context = ParseContext(
            reader, self.indices, self._no_computation, self._no_computation
        )
        self._leaves: dict[str, Callable[[DType, int], Expr]] = {
            "constant": self._constant,
            "index": self._index,
            "load": self._load,
            "reduced": self._reduced,
            "argument": self._argument,
            "accumulator": self._accumulator,
        }

    def index(self) -> int | Dim:
        """Take an index."""
        return self.indices.sum()

    def listed(
        self, item: Callable[[], _Item], brackets: str = "[]", what: str = ""
    ) -> tuple[_Item, ...]:
        """Take items in brackets, with commas between them."""
        reader, (first, last) = self.reader, brackets
        reader.expect(first, what)
        items: list[_Item] = []
        while not reader.accept(last):
            items.append(item())
            if not reader.accept(","):
                reader.expect(last, what)
                break
        return tuple(items)

    def matched(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Take what a pattern stands for."""
        found = self.reader.take(pattern)
        if found is None:
            self.reader.fail(f"expected {what}, found {self.reader.found()}", at=self.reader.skip())
        return found

    def buffer(self) -> int:
        """Take the name of a buffer; return its number."""
        return int(self.matched(BUFFER, "a buffer, such as b0")[1])

    def axis_name(self) -> str:
        """Take the name of an axis."""
        return self.matched(AXIS, "an axis, such as @0")[1]

    def element(self) -> DType:
        """Take an element type."""
        at = self.reader.skip()
        word = self.reader.word("an element type")
        found = DTYPES.get(word)
        if found is None or found.storage is None:
            hint = did_you_mean(word, DTYPES)
            self.reader.fail(f"unknown element type '{word}'", at=at, code="INGOT0110", hint=hint)
        return found

    def access(self) -> tuple[int, int | Dim, tuple[Expr, ...]]:
        """Take `bN[index]` and perhaps `with (vN, …)`."""
        number = self.buffer()
        self.reader.expect("[", "before the index")
        where = self.index()
        self.reader.expect("]", "after the index")
        return number, where, self._run_time_values()

    def _run_time_values(self) -> tuple[Expr, ...]:
        return self.uses() if self.accepts_word("with") else ()

    def accepts_word(self, word: str) -> bool:
        """Move past a word when it comes next."""
        reader = self.reader
        if re.compile(rf"{word}(?![\w.\-])").match(reader.text, reader.skip()) is None:
            return False
        return reader.accept(word)

    def expect_word(self, word: str) -> None:
        """Move past a word, which must come next."""
        if not self.accepts_word(word):
            self.reader.fail(f"expected '{word}', found {self.reader.found()}")

    def uses(self) -> tuple[Expr, ...]:
        """Take names of expressions in parentheses."""
        return self.listed(self.use, "()")

    def use(self) -> Expr:
        """Take the name of an expression."""
        at = self.reader.skip()
        number = int(self.matched(_VALUE, "a value, such as v0")[1])
        found = self.values.get(number)
        if found is None:
            message = f"v{number} is not defined before it is used"
            self.reader.fail(message, at=at, code="INGOT0104")
        return found

    def defines(self) -> bool:
        """Take the definition of an expression when one comes next."""
        found = self.reader.take(_DEFINITION)
        if found is None:
            return False
        number = int(found[1])
        if number in self.values:
            self.reader.fail(f"v{number} is defined twice", at=found.start(1) - 1, code="INGOT0105")
        self.values[number] = self._expression()
        return True

    def _expression(self) -> Expr:
        element = self.element()
        at = self.reader.skip()
        op = self.reader.word("an op")
        leaf = self._leaves.get(op)
        if leaf is not None:
            return leaf(element, at)
        definition = table().get(op)
        if definition is None:
            hint = did_you_mean(op, [*table(), *self._leaves])
            self.reader.fail(f"unknown opcode '{op}'", at=at, code="INGOT0102", hint=hint)
        args = self.uses()
        return ex.make(op, element, args, self._attributes(definition, at))

    def _constant(self, element: DType, _: int) -> Expr:
        found = self.matched(_SCALAR, "a number in parentheses")
        scalar = scalar_of(found[1].strip(), element)
        if scalar is None:
            message = f"'{found[1]}' is no {element.name}"
            hint = f"a number of that type, or its bits: 0x and {2 * element.bytes} digits"
            self.reader.fail(message, at=found.start(1), code="INGOT0106", hint=hint)
        return ex.make("constant", element, (), scalar)

    def _index(self, element: DType, at: int) -> Expr:
        if element is not S64:
            self.reader.fail(f"an index is s64, not {element.name}", at=at, code="INGOT0110")
        self.reader.expect("(", "before the index")
        where = self.index()
        self.reader.expect(")", "after the index")
        return ex.index(where, self._run_time_values())

    def _load(self, element: DType, _: int) -> Expr:
        number, where, values = self.access()
        mask = self.use() if self.accepts_word("if") else None
        return ex.load(number, where, element, values, mask)

    def _reduced(self, element: DType, _: int) -> Expr:
        found = self.matched(_OUTPUT, "an output of a reduction, such as r0.0")
        self.expect_word("over")
        axes = frozenset(self.listed(self.axis_name))
        return ex.reduced(int(found[1]), int(found[2]), element, axes)

    def _argument(self, element: DType, _: int) -> Expr:
        self.reader.expect("(")
        number = self.reader.integer()
        self.reader.expect(")")
        return ex.argument(number, element)

    def _accumulator(self, element: DType, _: int) -> Expr:
        self.expect_word("over")
        return ex.make("accumulator", element, (), self.listed(self.axis_name))

    def _attributes(self, definition: OpDef, at: int) -> Any:
        rows = {row.name: row for row in plan(definition)}
        values: dict[str, Any] = {}
        while (found := self.reader.take(_ATTRIBUTE)) is not None:
            row = rows.get(found[1])
            if row is None:
                message = f"{definition.name} has no attribute '{found[1]}'"
                hint = did_you_mean(found[1], rows)
                self.reader.fail(message, at=found.start(1), code="INGOT0103", hint=hint)
            if row.field in values:
                message = f"attribute '{found[1]}' is given twice"
                self.reader.fail(message, at=found.start(1), code="INGOT0105")
            values[row.field] = row.codec.read(self._context)
        if definition.attributes is NoAttributes:
            return NO_ATTRIBUTES
        missing = [row.name for row in rows.values() if row.is_required and row.field not in values]
        if missing:
            message = f"{definition.name} needs attribute '{missing[0]}'"
            self.reader.fail(message, at=at, code="INGOT0108")
        return definition.attributes(**values)

    def _no_computation(self, *_: object) -> NoReturn:
        self.reader.fail("an op of a kernel calls no computation")

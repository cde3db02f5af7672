# SPDX-License-Identifier: Apache-2.0
"""The parser of one instruction: `ROOT %name = shape opcode(operands), attribute=value, …`.

Which attributes an op has, which must be there and how each looks comes from the op table. The
instruction is made as declared; the module's parser verifies it against the op table when every
computation is known, so computations may be called before they are defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import Any, NoReturn

from ingot.formats.hlo_text.async_text import is_short_start, long_form, short_form
from ingot.formats.hlo_text.attribute_text import CODECS, AttributeText, ParseContext, plan
from ingot.formats.hlo_text.header_text import MetadataReader
from ingot.formats.hlo_text.kept_text import KEPT, read_kept
from ingot.formats.hlo_text.literal_text import read_literal
from ingot.formats.hlo_text.opcodes import NOT_IN_INGOT, OWN_OF_TARGET, XLA_OPCODES
from ingot.formats.hlo_text.reader import MAX_NESTING, SKIP, Reader, with_span
from ingot.formats.hlo_text.shape_text import ARRAY, ShapeReader
from ingot.formats.index_vectors import INDEXED, one_index_per_dimension
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import NO_METADATA, Instruction, Metadata, called_fields
from ingot.hlo.literal import Literal
from ingot.hlo.opdef import NO_ATTRIBUTES, Codec, NoAttributes, OpDef, OpView, table
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import IngotError, UnsupportedError
from ingot.support.records import mutable
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

# `ROOT %name =`, then what nearly every instruction continues with: an array shape and an opcode.
_HEAD = regex(
    SKIP
    + r"(ROOT\s++)?+%?([\w.\-]++)\s*+="
    + f"(?:{ARRAY.pattern}{SKIP}"
    + r"([a-z][a-z0-9\-]*+)\()?+"
)
_OPCODE = regex(SKIP + r"([a-z][a-z0-9\-]*+)" + SKIP + r"\(")
# Operands as XLA prints them: names only. Anything else takes the longer way.
_NAMES_ONLY = regex(r"((?>[%\w.\-,\s]|/\*(?>[^*]|\*(?!/))*+\*/)*+)\)")
_COMMENT = regex(r"/\*(?>[^*]|\*(?!/))*+\*/")
_ATTRIBUTE = regex(SKIP + "," + SKIP + r"([A-Za-z_][\w.\-]*+)\s*+=")
_SCALAR_LITERAL = regex(r"\s*+([\w.+\-]++)\s*+\)")
# Any instruction may have these.
_COMMON = (*sorted(KEPT), "metadata", "control-predecessors")
# The two branches of a conditional on a pred have names of their own.
_TRUE, _FALSE = "true_computation", "false_computation"
_OTHER_NAMES = {
    "conditional": {name: (name, Codec.COMPUTATION) for name in (_TRUE, _FALSE)},
    "custom-call": {"to_apply": ("called_computations", Codec.COMPUTATIONS)},
}
_MOST_LITERALS = 4096
# XLA's defaults of attributes that the op table requires and the text may omit.
_ABSENT: dict[tuple[str, str], Callable[[tuple[Instruction, ...]], Any]] = {
    ("broadcast", "dimensions"): lambda operands: (),
    ("map", "dimensions"): lambda operands: tuple(range(operands[0].shape.rank if operands else 0)),
    ("reduce-window", "window"): lambda operands: (),
    ("select-and-scatter", "window"): lambda operands: (),
}


@mutable
class Scope:
    """The computation that is being parsed: its instructions by name, its root, late names."""

    computation: Computation
    names: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    root: Instruction | None = None
    predecessors: list[tuple[Instruction, tuple[str, ...], int]] = field(
        default_factory=list[tuple[Instruction, tuple[str, ...], int]]
    )


@mutable
class _Tail:
    """The text after the operands."""

    values: dict[str, Any]
    metadata: Metadata = NO_METADATA
    extra: dict[str, str] | None = None
    predecessors: tuple[str, ...] = ()


class InstructionParser:
    """Parses instructions; notes their offsets in the text in `offsets`."""

    def __init__(self, context: ParseContext, metadata: MetadataReader) -> None:
        self.reader: Reader = context.reader
        self.shapes: ShapeReader = context.shapes
        self.context = context
        self.offsets: list[tuple[Instruction, int]] = []
        self._metadata = metadata
        self._table = table()
        self._literals: dict[tuple[str, str], Literal] = {}

    def parse_body(self, scope: Scope, at: int) -> None:
        """Take instructions into `scope`, up to the closing brace; `at`: offset of its name."""
        reader = self.reader
        while not reader.accept("}"):
            if reader.position >= len(reader.text):
                message = f"computation {scope.computation.name} is not closed: a '}}' is missing"
                reader.fail(message, at=at)
            self._parse(scope)

    def _parse(self, scope: Scope) -> None:
        reader = self.reader
        found = reader.take(_HEAD)
        if found is None:
            reader.fail(f"expected an instruction or '}}', found {reader.found()}")
        at, name = found.start(2), found.group(2)
        if name in scope.names:
            reader.fail(f"%{name} is defined twice", at=at, code="INGOT0105")
        shape, definition = self._shape_and_opcode(found)
        made = self._made(scope, name, shape, definition, at)
        scope.names[name] = made
        if found.group(1) is not None:
            if scope.root is not None:
                reader.fail("a second ROOT in this computation", at=at, code="INGOT0105")
            scope.root = made

    def _made(
        self,
        scope: Scope,
        name: str,
        shape: Shape | None,
        definition: OpDef,
        at: int,
        nesting: int = 0,
    ) -> Instruction:
        """Take operands and attributes; a nested instruction has no attributes, as in XLA."""
        operands, values = self._inside(scope, definition, shape, nesting)
        tail = _Tail(values) if nesting else self._tail(definition, values)
        attributes = self._attributes(definition, tail, operands, at)
        if definition.name == "custom-call":
            own = OWN_OF_TARGET.get(attributes.custom_call_target)
            if own is not None:
                definition, attributes = self._known(own, at), NO_ATTRIBUTES
        if definition.name in INDEXED:
            operands = one_index_per_dimension(scope.computation, definition.name, operands)
        if is_short_start(definition):
            definition, attributes = self._long_form(definition, attributes, operands, shape, at)
            # The op's own configuration is at the start op, memory sharing is the start's.
            kept = dict(tail.extra or {})
            kept.pop("output_to_operand_aliasing", "")
            attributes.calls.root.extra = kept
        if shape is None:
            shape = self._inferred(definition, operands, attributes, at)
        made = Instruction(name, definition, operands, shape, attributes, tail.metadata)
        if tail.extra is not None:
            made.extra = tail.extra
        if tail.predecessors:
            scope.predecessors.append((made, tail.predecessors, at))
        scope.computation.insert(made)
        self.offsets.append((made, at))
        return made

    def _shape_and_opcode(self, found: re.Match[str]) -> tuple[Shape | None, OpDef]:
        opcode = found.group(4)
        if opcode is None:
            shape = self.shapes.shape() if self.shapes.is_here() else None
            return shape, self._definition()
        shape = self.shapes.known(found.group(3), found.start(3))
        return shape, self._known(opcode, found.start(4))

    def _known(self, opcode: str, at: int) -> OpDef:
        definition = self._table.get(opcode) or short_form(opcode, self._table)
        return definition or self._unknown_opcode(opcode, at)

    def _long_form(
        self,
        short: OpDef,
        attributes: Any,
        operands: tuple[Instruction, ...],
        shape: Shape | None,
        at: int,
    ) -> tuple[OpDef, Any]:
        """Return definition and attributes of a start that names the op that it wraps."""
        if shape is None or len(shape.elements) < 2:
            message = f"{short.name} needs its shape: operands, result, contexts"
            self.reader.fail(message, at=at)
        start = long_form(short, attributes, operands, shape)
        self.context.made.append(start.attributes.calls)
        self.offsets.append((start.wrapped, at))
        return start.definition, start.attributes

    def _inside(
        self, scope: Scope, definition: OpDef, shape: Shape | None, nesting: int
    ) -> tuple[tuple[Instruction, ...], dict[str, Any]]:
        """Take the text in the parentheses: operands, or the value instead of them."""
        if definition.name == "parameter":
            number = self.reader.integer()
            self.reader.expect(")", "after the parameter number")
            return (), {"number": number}
        if definition.name == "constant":
            return (), {"literal": self._literal(shape)}
        return self._operands(scope, nesting), {}

    # ---- opcode and operands

    def _definition(self) -> OpDef:
        reader = self.reader
        found = reader.take(_OPCODE)
        if found is None:
            reader.fail(f"expected an opcode and '(', found {reader.found()}", at=reader.skip())
        return self._known(found.group(1), found.start(1))

    def _unknown_opcode(self, opcode: str, at: int) -> NoReturn:
        if opcode in XLA_OPCODES:
            reason = NOT_IN_INGOT.get(opcode, "it is XLA's")
            raise UnsupportedError(
                f"Ingot has no opcode '{opcode}'",
                code="INGOT0301",
                span=self.reader.span(at),
                hint=f"{reason}; docs/ops.md lists the supported ops",
            )
        hint = did_you_mean(opcode, self._table)
        self.reader.fail(f"unknown opcode '{opcode}'", at=at, code="INGOT0102", hint=hint)

    def _operands(self, scope: Scope, nesting: int) -> tuple[Instruction, ...]:
        reader = self.reader
        start = reader.position
        found = reader.take(_NAMES_ONLY)
        if found is None:
            return self._typed_operands(scope, nesting)
        inner = found.group(1)
        if "/*" in inner:
            inner = _COMMENT.sub("", inner)
        if not inner or inner.isspace():
            return ()
        names = [part.strip().removeprefix("%") for part in inner.split(",")]
        try:
            return tuple([scope.names[name] for name in names])
        except KeyError:
            # Find the wrong name and its offset by taking one name at a time.
            reader.position = start
            return self._typed_operands(scope, nesting)

    def _typed_operands(self, scope: Scope, nesting: int) -> tuple[Instruction, ...]:
        """Take operands one by one; each may have its shape before it.

        A shape without a name after it is no operand: XLA's parser skips it.
        """
        reader = self.reader
        operands: list[Instruction] = []
        while not reader.accept(")"):
            shape = self.shapes.shape() if self.shapes.is_here() else None
            if shape is None or not (reader.at(",") or reader.at(")")):
                operands.append(self._operand(scope, shape, nesting))
            if not reader.accept(","):
                reader.expect(")", "after the operands")
                break
        return tuple(operands)

    def _operand(self, scope: Scope, shape: Shape | None, nesting: int) -> Instruction:
        """Take a name, or an unnamed instruction instead of one."""
        reader = self.reader
        at = reader.skip()
        nested = reader.take(_OPCODE)
        if nested is None:
            name = reader.name("an operand")
            if name in scope.names:
                return scope.names[name]
            reader.fail(
                f"%{name} is not defined before it is used",
                at=at,
                code="INGOT0104",
                hint=did_you_mean(name, scope.names),
            )
        if nesting >= MAX_NESTING:
            reader.fail("instructions are nested too deeply", at=at, code="INGOT0109")
        definition = self._known(nested.group(1), at)
        return self._made(scope, definition.name, shape, definition, at, nesting + 1)

    def _literal(self, shape: Shape | None) -> Literal:
        reader = self.reader
        if shape is None:
            reader.fail("a constant needs its shape")
        simple = _SCALAR_LITERAL.match(reader.text, reader.position)
        if simple is None or shape.dims or not shape.is_array:
            literal = read_literal(reader, shape)
            reader.expect(")", "after the value of the constant")
            return literal
        key = (shape.dtype.name, simple.group(1))
        known = self._literals.get(key)
        if known is None:
            known = read_literal(reader, shape)
            if len(self._literals) < _MOST_LITERALS:
                self._literals[key] = known
        reader.position = simple.end()
        return known

    # ---- attributes

    def _tail(self, definition: OpDef, values: dict[str, Any]) -> _Tail:
        """Take the attributes; `values` gets the op's own, by field name."""
        reader = self.reader
        tail = _Tail(values)
        rows = _rows(definition)
        while (found := reader.take(_ATTRIBUTE)) is not None:
            name = found.group(1)
            row = rows.get(name)
            if row is not None:
                if row.field in values:
                    self._twice(name, found.start(1))
                values[row.field] = row.codec.read(self.context)
            elif name == "metadata":
                tail.metadata = self._metadata.read()
            else:
                self._common(definition, tail, name, found.start(1))
        return tail

    def _common(self, definition: OpDef, tail: _Tail, name: str, at: int) -> None:
        """Take an attribute that is not the op's own."""
        reader = self.reader
        if name == "control-predecessors":
            reader.expect("{")
            names: list[str] = []
            while not reader.accept("}"):
                names.append(reader.name("an instruction"))
                if not reader.accept(","):
                    reader.expect("}")
                    break
            tail.predecessors = tuple(names)
        elif name in KEPT:
            tail.extra = {} if tail.extra is None else tail.extra
            if name in tail.extra:
                self._twice(name, at)
            tail.extra[name] = read_kept(reader, name)
        else:
            known = (*_rows(definition), *_COMMON)
            message = f"{definition.name} has no attribute '{name}'"
            own = ", ".join(_rows(definition))
            hint = did_you_mean(name, known) or (f"it has: {own}" if own else "")
            reader.fail(message, at=at, code="INGOT0103", hint=hint)

    def _twice(self, name: str, at: int) -> NoReturn:
        self.reader.fail(f"attribute '{name}' is given twice", at=at, code="INGOT0105")

    def _attributes(
        self, definition: OpDef, tail: _Tail, operands: tuple[Instruction, ...], at: int
    ) -> Any:
        values = tail.values
        if _TRUE in values or _FALSE in values:
            if _TRUE not in values or _FALSE not in values or "branch_computations" in values:
                message = f"conditional takes {_TRUE} and {_FALSE}, or branch_computations"
                self.reader.fail(message, at=at, code="INGOT0108")
            values["branch_computations"] = (values.pop(_TRUE), values.pop(_FALSE))
        if definition.attributes is NoAttributes:
            return NO_ATTRIBUTES
        for row in plan(definition):
            if not row.is_required or row.field in values:
                continue
            absent = _ABSENT.get((definition.name, row.field))
            if absent is None:
                message = f"{definition.name} needs attribute '{row.name}'"
                self.reader.fail(message, at=at, code="INGOT0108")
            values[row.field] = absent(operands)
        return definition.attributes(**values)

    def _inferred(
        self, definition: OpDef, operands: tuple[Instruction, ...], attributes: Any, at: int
    ) -> Shape:
        """Return the result shape of an instruction written without one."""
        least, greatest = definition.arity
        if not least <= len(operands) <= (len(operands) if greatest is None else greatest):
            message = f"{definition.name} does not take {len(operands)} operands"
            self.reader.fail(message, at=at)
        for _, called in called_fields(definition, attributes):
            if called.root_ is None:
                message = f"{called.name} is defined later: write the shape of this result"
                self.reader.fail(message, at=at)
        view = OpView(definition.name, tuple(o.shape for o in operands), attributes)
        try:
            return definition.infer(view)
        except IngotError as error:
            raise with_span(error, self.reader, at) from None


@cache
def _rows(definition: OpDef) -> dict[str, AttributeText]:
    """Return the attributes of an op by their names in the text."""
    rows = {row.name: row for row in plan(definition)}
    for name, (field_name, codec) in _OTHER_NAMES.get(definition.name, {}).items():
        rows[name] = AttributeText(name, field_name, CODECS[codec], None)
    return rows

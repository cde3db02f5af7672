# SPDX-License-Identifier: Apache-2.0
"""The parser: HLO text, as XLA dumps it or a person writes it, to a verified module.

Flow: header and tables of source locations, then computations in any order, then, when all are
known, verification of each instruction with the op table. Names, order and schedule of the text are
kept, so printing the module gives the same text. Every error is an `IngotError` with the position
in the text; there is no recursion over the text, so nesting cannot exhaust the stack.

Source: xla/hlo/parser/hlo_parser.cc.

Example:
    >>> module = parse("HloModule m ENTRY main { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> module.entry.root
    %y = f32[2]{0} abs(%x)
"""

from __future__ import annotations

import re

from ingot.formats.hlo_text.attribute_text import ParseContext
from ingot.formats.hlo_text.entry_layout import keep_layout
from ingot.formats.hlo_text.header_text import (
    Header,
    MetadataReader,
    read_frames,
    read_header,
)
from ingot.formats.hlo_text.instruction_parser import InstructionParser, Scope
from ingot.formats.hlo_text.reader import MAX_NESTING, SKIP, Reader, with_span
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.operand_order import operands_first
from ingot.hlo.shape import Shape
from ingot.hlo.verifier import verify, verify_instruction
from ingot.support.arguments import encodable, require_type
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import IngotError
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

_HEAD = regex(SKIP + r"(?:(ENTRY)\b" + SKIP + r")?+%?([\w.\-]++)" + SKIP + r"([({])", re.ASCII)
_MLIR = regex(SKIP + r'(?:module\s*+[@{a]|"builtin\.module"|#loc)')
_AFTER = regex(SKIP + r',\s*+execution_thread="[^"]*+"')


def parse(text: str, source_name: str = "<hlo>") -> Module:
    """Return the module of HLO text.

    Args:
        text: the text of a whole module.
        source_name: what errors call the text, such as its file name.

    Raises:
        ParseError: the text is not HLO text (INGOT0101 to INGOT0112).
        VerifyError: an instruction breaks a constraint of its op.
        UnsupportedError: an opcode of XLA that Ingot does not have.
    """
    require_type(text, str, "the text of a module", "ingot.load reads bytes and files")
    require_type(source_name, str, "the name of the source")
    with collector_paused():
        return ModuleParser(Reader(encodable(text), source_name)).parse()


parse_hlo = parse
"""`parse` under the name that `ingot` exports."""


class ModuleParser:
    """The computations met so far, defined or only called."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.shapes = ShapeReader(reader)
        self.computations: dict[str, Computation] = {}
        self.called: dict[str, int] = {}
        self.defined: dict[str, int] = {}
        self.entry: Computation | None = None
        self.nesting = 0

    def parse(self) -> Module:
        """Take the whole text."""
        reader = self.reader
        header = read_header(reader)
        metadata = MetadataReader(reader, read_frames(reader))
        context = ParseContext(reader, self.shapes, self._computation, lambda: self._inline(parser))
        parser = InstructionParser(context, metadata)
        while reader.skip() < len(reader.text):
            self._parse_computation(parser)
        self._check_calls(context.made)
        module = self._module(header)
        for computation in context.made:
            module.take(computation)
        self._verify(module, parser.offsets, header.sharing_offset)
        return module

    def _computation(self, name: str, at: int) -> Computation:
        """Return the computation called `name`, defined or not yet."""
        found = self.computations.get(name)
        if found is None:
            found = self.computations[name] = Computation(name)
            self.called[name] = at
        return found

    def _parse_computation(self, parser: InstructionParser) -> None:
        reader = self.reader
        found = reader.take(_HEAD)
        if found is None:
            hint = "write '%name (x: f32[2]) -> f32[2] { … }' or 'ENTRY %name { … }'"
            if _MLIR.match(reader.text, reader.position):
                hint = "this is MLIR (StableHLO), not HLO text"
            reader.fail(f"expected a computation, found {reader.found()}", hint=hint)
        at, name = found.start(2), found.group(2)
        if name in self.defined:
            reader.fail(f"computation {name} is defined twice", at=at, code="INGOT0105")
        self.defined[name] = at
        computation = self._computation(name, at)
        self.called.pop(name, None)
        if found.group(1) is not None:
            if self.entry is not None:
                reader.fail("a second ENTRY computation", at=at, code="INGOT0105")
            self.entry = computation
        result = self._signature() if found.group(3) == "(" else None
        scope = Scope(computation)
        parser.parse_body(scope, at)
        reader.take(_AFTER)
        self._finish(scope, at)
        if result is not None:
            self._check_result(computation, result, at)

    def _inline(self, parser: InstructionParser) -> Computation:
        """Take the body of a computation without a name, up to its closing brace."""
        at = self.reader.position
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.reader.fail("computations are nested too deeply", at=at, code="INGOT0109")
        scope = Scope(Computation("inline"))
        parser.parse_body(scope, at)
        self._finish(scope, at)
        parser.context.made.append(scope.computation)
        self.nesting -= 1
        return scope.computation

    def _signature(self) -> Shape:
        """Take `x: f32[2], y: f32[]) -> f32[2] {`; return the result.

        Like XLA, it does not check the parameters against the signature.
        """
        reader = self.reader
        while not reader.accept(")"):
            reader.name("the name of a parameter")
            reader.accept(":")
            self.shapes.shape()
            if not reader.accept(","):
                reader.expect(")", "after the parameters")
                break
        reader.expect("->", "before the result shape")
        result = self.shapes.shape()
        reader.expect("{", "before the instructions")
        return result

    def _finish(self, scope: Scope, at: int) -> None:
        """Set the root, the control predecessors, and check the parameters."""
        reader, computation = self.reader, scope.computation
        if not scope.names:
            reader.fail(f"computation {computation.name} is empty", at=at)
        for instruction, names, offset in scope.predecessors:
            for name in names:
                if name not in scope.names:
                    hint = did_you_mean(name, scope.names)
                    message = f"control predecessor %{name} is not in this computation"
                    reader.fail(message, at=offset, code="INGOT0104", hint=hint)
            instruction.run_after(tuple(scope.names[name] for name in names))
        if scope.predecessors:
            self._check_order(scope)
        # The last instruction is the root when none is marked.
        computation.set_root(scope.root or next(reversed(scope.names.values())))
        for number, parameter in enumerate(computation.parameters):
            if parameter.attributes.number != number:
                message = f"parameter {number} of {computation.name} is missing"
                if parameter.attributes.number < number:
                    message = f"two parameters {parameter.attributes.number}"
                reader.fail(message, at=at, code="INGOT0111")

    def _check_order(self, scope: Scope) -> None:
        """Check that control predecessors make no cycle: the text's order only covers operands."""
        try:
            operands_first(scope.computation.instructions)
        except IngotError as error:
            raise with_span(error, self.reader, scope.predecessors[0][2]) from None

    def _check_result(self, computation: Computation, result: Shape, at: int) -> None:
        if not computation.root.shape.compatible(result):
            message = f"the signature of {computation.name} is not that of its instructions"
            hint = f"they say {computation.shape_text}"
            self.reader.fail(message, at=at, code="INGOT0111", hint=hint)

    def _check_calls(self, made: list[Computation]) -> None:
        """Check that called computations are defined, and that none calls itself."""
        reader = self.reader
        for name, at in self.called.items():
            hint = did_you_mean(name, self.defined)
            message = f"computation {name} is not defined"
            reader.fail(message, at=at, code="INGOT0104", hint=hint)
        if not self.defined:
            reader.fail("a module needs a computation", at=reader.position)
        callees = {c: c.callees() for c in (*self.computations.values(), *made)}
        done: dict[Computation, bool] = {}
        for start in callees:
            stack = [start]
            while stack:
                computation = stack[-1]
                if computation in done:
                    stack.pop()
                    done[computation] = True
                    continue
                done[computation] = False
                for callee in callees[computation]:
                    if done.get(callee) is False:
                        at = self.defined.get(callee.name, 0)
                        message = f"computation {callee.name} calls itself"
                        reader.fail(message, at=at, code="INGOT0112")
                    if callee not in done:
                        stack.append(callee)

    def _module(self, header: Header) -> Module:
        module = Module(header.name)
        module.extra = header.extra
        for name in self.defined:
            computation = self.computations[name]
            computation.module = module
            computation.take_names(module.names)
            module.computations[name] = computation
            if header.is_scheduled:
                module.schedule[computation] = computation.instructions
        # Text without ENTRY: the last computation is the entry, as no later one can call it.
        module.set_entry(self.entry or module.computations[next(reversed(self.defined))])
        module.aliases = header.aliases
        module.name = header.name or f"module_{module.entry.name}"
        keep_layout(module, header.layout)
        return module

    def _verify(self, module: Module, offsets: list[tuple[Instruction, int]], header: int) -> None:
        """Check the module; report a wrong instruction at its offset in the text.

        An error of no particular instruction is reported at offset `header`.
        """
        try:
            verify(module)
            return
        except IngotError as error:
            found = error
        for instruction, at in offsets:
            try:
                verify_instruction(instruction)
            except IngotError as error:
                raise with_span(error, self.reader, at) from None
        raise with_span(found, self.reader, header) from None

# SPDX-License-Identifier: Apache-2.0
"""Protos to modules: HloModuleProto, and what contains one (HloProto, HloSnapshot).

Instructions are made as declared and then verified against the op table, as the text's parser does.
An instruction's id is unique in the module; files of older XLA number within a computation, which
reads the same, since operands are of the same computation.

Source: xla/hlo/ir/hlo_module.cc (CreateFromProto), xla/hlo/ir/hlo_instruction.cc (CreateFromProto).
"""

from __future__ import annotations

from typing import Any

from ingot.formats.hlo_proto.extras import (
    Frames,
    read_extras,
    read_frontend_attributes,
    read_metadata,
)
from ingot.formats.hlo_proto.fields import plan
from ingot.formats.hlo_proto.shapes import read_literal, read_shape
from ingot.formats.hlo_proto.wire import Message, broken, decode
from ingot.formats.hlo_text.entry_layout import keep_layout, signature_text
from ingot.formats.hlo_text.opcodes import OWN_OF_TARGET, XLA_OPCODES
from ingot.formats.index_vectors import INDEXED, one_index_per_dimension
from ingot.hlo.computation import Computation
from ingot.hlo.donors import Donor, write_donors
from ingot.hlo.dtype import DType, Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Alias, Module
from ingot.hlo.names import unique_name
from ingot.hlo.opdef import NO_ATTRIBUTES, Codec, NoAttributes, OpDef, table
from ingot.hlo.operand_order import is_order
from ingot.hlo.verifier import verify
from ingot.support.arguments import bytes_of
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import ParseError, UnsupportedError
from ingot.support.records import record

# Ops that name their callees in another order than the op table has them.
CALLED_ORDER = {"while": (1, 0)}
ALIAS_KINDS = {1: "may-alias", 2: "must-alias"}


@record
class Snapshot:
    """A module and a run of it.

    Attributes:
        module: the program.
        arguments: its arguments.
        result: its result, or None.
        platform: the platform that it ran on.
    """

    module: Module
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    platform: str = ""


def parse_hlo_proto(data: bytes) -> Module:
    """Return the module of a serialized HloModuleProto, HloProto or HloSnapshot.

    Raises:
        ParseError: it is none of these (INGOT0122), or has a dangling reference.
        UnsupportedError: an opcode or element type that Ingot does not have.
        VerifyError: an instruction breaks a constraint of its op.
    """
    return parse_snapshot(data).module


def parse_snapshot(data: bytes) -> Snapshot:
    """Return the module with its arguments and result, when the proto is a snapshot.

    A proto does not say its kind: the one that fits is taken.

    Raises:
        ParseError: as `parse_hlo_proto`; also where a proto contradicts itself (INGOT0122), such as
            a literal with fewer elements than its shape.
    """
    data = bytes_of(data, "the proto")
    with collector_paused():
        snapshot = _guess(data, "HloSnapshot")
        if snapshot.get("hlo", {}).get("hlo_module"):
            return _read_snapshot(snapshot)
        for kind in ("HloProto", "HloUnoptimizedSnapshot"):
            inner = _guess(data, kind).get("hlo_module", {})
            if inner.get("computations"):
                return Snapshot(read_module(inner))
        return Snapshot(read_module(decode(data, "HloModuleProto")))


def _guess(data: bytes, kind: str) -> Message:
    try:
        return decode(data, kind)
    except ParseError:
        return {}


def _read_snapshot(message: Message) -> Snapshot:
    result = message.get("result")
    return Snapshot(
        read_module(message["hlo"]["hlo_module"]),
        tuple(read_literal(part) for part in message.get("arguments", ())),
        read_literal(result) if result is not None else None,
        message.get("execution_platform", ""),
    )


def read_module(message: Message) -> Module:
    """Return the verified module of an HloModuleProto's message."""
    rows = message.get("computations", ())
    if not rows:
        raise ParseError("the module has no computation", code="INGOT0122")
    reader = _ModuleReader(message)
    for row in rows:
        reader.add_computation(row)
    reader.finish(message)
    verify(reader.module)
    return reader.module


class _ModuleReader:
    def __init__(self, message: Message) -> None:
        self.module = Module(message.get("name", "module"))
        self.frames = Frames(message.get("stack_frame_index", {}))
        self.computations: dict[int, Computation] = {}
        self.instructions: dict[Computation, dict[int, Instruction]] = {}
        self._table = table()

    def add_computation(self, message: Message) -> None:
        """Add a computation whose callees are there."""
        module = self.module
        taken = dict.fromkeys(module.computations, 0)
        computation = Computation(unique_name(taken, message.get("name", "computation")))
        computation.module = module
        known: dict[int, Instruction] = {}
        for row in message.get("instructions", ()):
            number = row.get("id", 0)
            if number in known:
                raise broken(f"two instructions of {computation.name} have the id {number}")
            known[number] = computation.insert(self._instruction(row, known, computation))
        root = known.get(message.get("root_id", 0))
        if root is None:
            raise ParseError(f"computation {computation.name} has no root", code="INGOT0122")
        computation.set_root(root)
        module.computations[computation.name] = computation
        number = message.get("id", 0)
        if number in self.computations:
            raise broken(f"two computations have the id {number}")
        self.computations[number] = computation
        self.instructions[computation] = known

    def _instruction(
        self, message: Message, known: dict[int, Instruction], computation: Computation
    ) -> Instruction:
        own = OWN_OF_TARGET.get(message.get("custom_call_target", ""))
        definition = self._definition(own or message.get("opcode", ""))
        shape = read_shape(message.get("shape", {}))
        operands = tuple(_known(known, number) for number in message.get("operand_ids", ()))
        if definition.name in INDEXED:
            operands = one_index_per_dimension(computation, definition.name, operands)
        name = unique_name(self.module.names, message.get("name", definition.name))
        attributes = self._attributes(definition, message, operands)
        metadata = read_metadata(message.get("metadata", {}), self.frames)
        made = Instruction(name, definition, operands, shape, attributes, metadata)
        made.extra = read_extras(message)
        before = message.get("control_predecessor_ids", ())
        made.run_after(tuple(_known(known, number) for number in before))
        return made

    def _definition(self, opcode: str) -> OpDef:
        found = self._table.get(opcode)
        if found is None:
            known = "XLA's, and not in Ingot's op table" if opcode in XLA_OPCODES else "not known"
            raise UnsupportedError(f"opcode '{opcode}' is {known}", code="INGOT0301")
        return found

    def _attributes(
        self, definition: OpDef, message: Message, operands: tuple[Instruction, ...]
    ) -> Any:
        if definition.attributes is NoAttributes:
            return NO_ATTRIBUTES
        values = {name: row.read(message) for name, row, _ in plan(definition)}
        called = [self._called(number) for number in message.get("called_computation_ids", ())]
        values.update(_callees(definition, called))
        if definition.name == "compare" and operands:
            values["type"] = _comparison_type(values["type"], operands[0].shape.dtype)
        return definition.attributes(**values)

    def _called(self, number: int) -> Computation:
        if number not in self.computations:
            raise ParseError(f"computation {number} is called before it is there", code="INGOT0104")
        return self.computations[number]

    def finish(self, message: Message) -> None:
        """Set the properties of the whole module: entry, aliases, donors, schedule."""
        module = self.module
        entry = message.get("entry_computation_id", 0)
        names = message.get("entry_computation_name", "")
        found = self.computations.get(entry) or module.computations.get(names)
        if found is None:
            raise ParseError("the entry computation is not in the module", code="INGOT0104")
        module.set_entry(found)
        aliases = message.get("input_output_alias", {}).get("entries", ())
        module.aliases = tuple(_alias(row) for row in aliases)
        write_donors(module, [*map(_donor, message.get("buffer_donor", {}).get("entries", ()))])
        attributes = read_frontend_attributes(message.get("frontend_attributes", {}))
        if attributes:
            module.extra["frontend_attributes"] = attributes
        if message.get("is_dynamic"):
            module.extra["is_dynamic"] = "true"
        if "host_program_shape" in message:
            keep_layout(module, _signature_text(message["host_program_shape"]))
        self._schedule(message.get("schedule", {}))

    def _schedule(self, message: Message) -> None:
        schedule = self.module.schedule
        for row in message.get("sequences", ()):
            computation = self.computations.get(row.get("key", 0))
            if computation is None:
                continue
            known = self.instructions[computation]
            numbers = row.get("value", {}).get("instruction_ids", ())
            order = [_known(known, number) for number in numbers]
            if not is_order(order, len(computation)):
                raise broken(f"the schedule of {computation.name} is no order of its instructions")
            schedule[computation] = order
        if schedule:
            # As text has it, all computations have an order or none.
            for computation in self.module.computations.values():
                schedule.setdefault(computation, computation.post_order())


def _signature_text(message: Message) -> str:
    parameters = [read_shape(row) for row in message.get("parameters", ())]
    return signature_text(parameters, read_shape(message.get("result", {})))


def _known(known: dict[int, Instruction], number: int) -> Instruction:
    if number not in known:
        raise ParseError(f"instruction {number} is used before it is there", code="INGOT0104")
    return known[number]


def _callees(definition: OpDef, called: list[Computation]) -> dict[str, Any]:
    """Return the called computations by field."""
    order = CALLED_ORDER.get(definition.name)
    if order is not None and len(called) == len(order):
        called = [called[number] for number in order]
    values: dict[str, Any] = {}
    rest = iter(called)
    for field in definition.fields:
        codec = field.metadata["codec"]
        if codec is Codec.COMPUTATIONS:
            values[field.name] = tuple(rest)
        elif codec is Codec.COMPUTATION:
            found = next(rest, None)
            if found is not None:
                values[field.name] = found
            elif field.default is not None:
                raise ParseError(f"{definition.name} calls no {field.name}", code="INGOT0108")
    if next(rest, None) is not None:
        raise broken(f"{definition.name} does not call {len(called)} computations")
    return values


def _comparison_type(given: str, element: DType) -> str:
    """Return the type of a comparison where it is not the element type's own, as in text."""
    if element.kind in (Kind.FLOAT, Kind.COMPLEX):
        own = "FLOAT"
    else:
        own = "SIGNED" if element.kind is Kind.SIGNED else "UNSIGNED"
    return "" if given == own else given


def _alias(row: Message) -> Alias:
    return Alias(
        tuple(row.get("output_shape_index", ())),
        row.get("parameter_number", 0),
        tuple(row.get("parameter_shape_index", ())),
        ALIAS_KINDS.get(row.get("kind", 0), "may-alias"),
    )


def _donor(row: Message) -> Donor:
    return row.get("parameter_number", 0), tuple(row.get("parameter_shape_index", ()))

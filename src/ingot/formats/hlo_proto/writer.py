# SPDX-License-Identifier: Apache-2.0
"""Modules to protos: HloModuleProto, HloProto, HloSnapshot.

Ids are as in today's XLA: the computation's number, then the instruction's own, 32 bits each.
Symbolic sizes, which the proto cannot hold, are refused.

Source: xla/hlo/ir/hlo_module.cc (ToProto), xla/hlo/ir/hlo_instruction.cc (ToProto).
"""

from __future__ import annotations

from ingot.formats.hlo_proto.extras import (
    write_extras,
    write_frontend_attributes,
    write_metadata,
)
from ingot.formats.hlo_proto.fields import plan
from ingot.formats.hlo_proto.reader import ALIAS_KINDS, CALLED_ORDER, Snapshot
from ingot.formats.hlo_proto.shapes import program_shape, write_literal, write_shape
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.formats.hlo_text.entry_layout import LAYOUT, signature
from ingot.formats.hlo_text.opcodes import TARGETS
from ingot.hlo.computation import Computation, callees_first
from ingot.hlo.donors import read_donors
from ingot.hlo.instruction import NO_METADATA, Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.support.arguments import require_type

_ALIAS_NUMBERS = {name: number for number, name in ALIAS_KINDS.items()}


def print_hlo_proto(module: Module) -> bytes:
    """Return the module as a serialized HloModuleProto."""
    require_type(module, Module, "what is written")
    return encode(write_module(module), "HloModuleProto")


def print_snapshot(snapshot: Snapshot) -> bytes:
    """Return a module with its arguments and result as a serialized HloSnapshot."""
    message: Message = {
        "hlo": {"hlo_module": write_module(snapshot.module)},
        "arguments": [write_literal(one) for one in snapshot.arguments],
        "execution_platform": snapshot.platform,
    }
    if snapshot.result is not None:
        message["result"] = write_literal(snapshot.result)
    return encode(message, "HloSnapshot")


def write_module(module: Module) -> Message:
    """Return the HloModuleProto's message."""
    order = callees_first(module.computations.values())
    numbers = {computation: number for number, computation in enumerate(order, 1)}
    ids = {
        instruction: numbers[computation] << 32 | number
        for computation in order
        for number, instruction in enumerate(computation.post_order())
    }
    fusions = {
        called
        for computation in order
        for instruction in computation.instructions
        if instruction.opcode == "fusion"
        for called in instruction.called_computations
    }
    message: Message = {
        "name": module.name,
        "entry_computation_name": module.entry.name,
        "entry_computation_id": numbers[module.entry],
        "host_program_shape": _host_program_shape(module),
        "computations": [
            _write_computation(one, numbers, ids) | {"is_fusion_computation": one in fusions}
            for one in order
        ],
        "input_output_alias": {"entries": [_alias(module, n) for n in range(len(module.aliases))]},
        "is_dynamic": module.extra.get("is_dynamic") == "true",
    }
    donors = read_donors(module)
    if donors:
        message["buffer_donor"] = {"entries": [_donor(number, path) for number, path in donors]}
    if "frontend_attributes" in module.extra:
        text = module.extra["frontend_attributes"]
        message["frontend_attributes"] = write_frontend_attributes(text)
    if module.schedule:
        message["schedule"] = {
            "sequences": [
                {"key": numbers[one], "value": {"instruction_ids": [ids[i] for i in sequence]}}
                for one, sequence in module.schedule.items()
            ]
        }
    return message


def _host_program_shape(module: Module) -> Message:
    """Return the entry's signature with the layouts that a header or proto gave it."""
    if LAYOUT not in module.extra:
        return _program_shape(module.entry)
    shapes, result = signature(module)
    names = [parameter.name for parameter in module.entry.parameters]
    return program_shape(list(zip(names, shapes, strict=True)), result)


def _program_shape(computation: Computation) -> Message:
    parameters = [(parameter.name, parameter.shape) for parameter in computation.parameters]
    return program_shape(parameters, computation.root.shape)


def _write_computation(
    computation: Computation, numbers: dict[Computation, int], ids: dict[Instruction, int]
) -> Message:
    return {
        "name": computation.name,
        "id": numbers[computation],
        "root_id": ids[computation.root],
        "program_shape": _program_shape(computation),
        "execution_thread": "main",
        "instructions": [
            _write_instruction(instruction, numbers, ids)
            for instruction in computation.post_order()
        ],
    }


def _write_instruction(
    instruction: Instruction, numbers: dict[Computation, int], ids: dict[Instruction, int]
) -> Message:
    target = TARGETS.get(instruction.opcode)
    message: Message = {
        "name": instruction.name,
        "opcode": instruction.opcode if target is None else "custom-call",
        "shape": write_shape(instruction.shape),
        "id": ids[instruction],
        "operand_ids": [ids[operand] for operand in instruction.operands],
        "control_predecessor_ids": [ids[one] for one in instruction.control_predecessors],
    }
    for name, row, _ in plan(instruction.definition):
        row.write(message, getattr(instruction.attributes, name))
    if target is not None:
        message["custom_call_target"] = target
    if instruction.opcode == "constant":
        # Elements are in the order of the instruction's layout.
        literal = instruction.attributes.literal
        placed = Literal(instruction.shape, literal.array, literal.elements)
        message["literal"] = write_literal(placed)
    called = list(instruction.called_computations)
    if instruction.opcode in CALLED_ORDER:
        called = [called[n] for n in CALLED_ORDER[instruction.opcode]]
    message["called_computation_ids"] = [numbers[one] for one in called]
    if instruction.metadata is not NO_METADATA:
        message["metadata"] = write_metadata(instruction.metadata)
    return message | write_extras(instruction)


def _alias(module: Module, number: int) -> Message:
    alias = module.aliases[number]
    return {
        "output_shape_index": list(alias.output),
        "parameter_number": alias.parameter,
        "parameter_shape_index": list(alias.path),
        "kind": _ALIAS_NUMBERS[alias.kind],
    }


def _donor(number: int, path: tuple[int, ...]) -> Message:
    return {"parameter_number": number, "parameter_shape_index": list(path)}

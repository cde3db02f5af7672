# SPDX-License-Identifier: Apache-2.0
"""Foreign calls: the instructions for which the host program calls code that was not generated.

They are custom calls, but for assertions; `replica-id` and `partition-id`, which the runtime knows;
and the collectives that it does as a whole: one array, moved or folded between groups of devices
(`collective-expander` leaves no others). Their targets are named after their opcodes. A
collective's `config` is JSON with the number of devices, the groups or each device's source, the
dimension, and the opcode of the reducer.

A collective that runs while kernels run is the root of the computation of an `async-start`: two
calls, of which the second, the `async-done`, waits for it. Until the scheduler decides which ones
do, a collective is one op. An order of the program may name its start or its end alone: then a
barrier stands for the end, and what must run after the op need not wait for its result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from ingot.hlo.dtype import U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import is_assertion
from ingot.semantics.call_layouts import logical_shapes
from ingot.semantics.custom_calls import CallSite, aliases_of, config_text, is_note
from ingot.semantics.device_groups import Grid, grid_of, groups_of, pairs_of, with_others
from ingot.semantics.device_ranges import range_text
from ingot.semantics.reducers import reducer_opcode
from ingot.support.records import replace

RUNTIME_COLLECTIVES = ops_with(Trait.EXCHANGE)
"""The collectives that the runtime does."""
RUNTIME_OPS = RUNTIME_COLLECTIVES | ops_with(Trait.DEVICE_ID)
"""The ops of HLO that are foreign calls."""
START = "async-start"
DONE = "async-done"
CONTEXT = Shape.array(U64, (32,))
"""The shape of what an `async-start` gives besides operands and result: the state of its exchange
(`runtime.foreign.collectives.visit.Visit`)."""


def is_exchange(target: str) -> bool:
    """Whether a target is a collective that the runtime does, or the start of one."""
    return target.removesuffix("-start") in RUNTIME_COLLECTIVES


def is_runtime_target(target: str) -> bool:
    """Whether the runtime has a target by itself: an op, or a start or done of one."""
    return target in RUNTIME_OPS or is_exchange(target.removesuffix("-done"))


def is_foreign_call(instruction: Instruction) -> bool:
    """Whether the host program calls code that was not generated for this instruction."""
    if instruction.opcode in RUNTIME_OPS or instruction.opcode in (START, DONE):
        return True
    return instruction.opcode == "custom-call" and not is_assertion(instruction)


def foreign_calls(module: Module) -> list[Instruction]:
    """Return the module's foreign calls in a fixed order: that of the artifact."""
    found = [
        instruction
        for computation in module.post_order()
        for instruction in computation.calls_and_effects
        if is_foreign_call(instruction)
    ]
    started = {op.attributes.calls for op in found if op.opcode == START}
    return [op for op in found if op.computation not in started] if started else found


def exchange_of(op: Instruction) -> Instruction:
    """Return the collective that an op begins, waits for, or is."""
    if op.opcode == DONE:
        op = op.operands[0]
    return op.attributes.calls.root if op.opcode == START else op


def ends_at_barrier(op: Instruction) -> bool:
    """Whether a barrier is the end of a collective: it reads the result, or what is made of it."""
    return op.has(Trait.EXCHANGE) and _is_read_by(op, lambda one: _is_read_by(one, _is_barrier))


def _is_read_by(value: Instruction, holds: Callable[[Instruction], bool]) -> bool:
    """Whether a value has readers, and each is a barrier or `holds`; notes read nothing."""
    readers = [one for one in value.users if not is_note(one)]
    return bool(readers) and all(_is_barrier(one) or holds(one) for one in readers)


def _is_barrier(one: Instruction) -> bool:
    return one.opcode == "opt-barrier"


def call_sites(module: Module) -> tuple[CallSite, ...]:
    """Return the call sites of the module's foreign calls, in their order."""
    grid = grid_of(module)
    before: Counter[str] = Counter()
    found: list[CallSite] = []
    for instruction in foreign_calls(module):
        is_call = instruction.opcode == "custom-call"
        site = call_site(instruction) if is_call else _runtime_site(instruction, grid)
        found.append(replace(site, number=before[site.target]))
        before[site.target] += 1
    return tuple(found)


def target_name(instruction: Instruction) -> str:
    """Return the name of the target that a foreign call is for."""
    if instruction.opcode == "custom-call":
        return instruction.attributes.custom_call_target
    name = exchange_of(instruction).opcode
    return name + _SUFFIX.get(instruction.opcode, "")


_SUFFIX = {START: "-start", DONE: "-done"}


def call_site(instruction: Instruction) -> CallSite:
    """Return the call site of a custom call, as its target sees it."""
    given = instruction.attributes
    return CallSite(
        given.custom_call_target,
        *logical_shapes(instruction),
        config_text(instruction),
        given.api_version,
        given.custom_call_has_side_effect,
        aliases_of(instruction),
        instruction.metadata.op_name,
        instruction.metadata.location,
    )


def _runtime_site(op: Instruction, grid: Grid) -> CallSite:
    return CallSite(
        target_name(op),
        tuple(shape for operand in op.operands for _, shape in operand.shape.leaves()),
        tuple(shape for _, shape in op.shape.leaves()),
        json.dumps(_config_of(op, grid), sort_keys=True),
        side_effect=op.has(Trait.SIDE_EFFECT),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
    )


def _config_of(op: Instruction, grid: Grid) -> dict[str, Any]:
    """Return what the runtime must know of an op besides its shapes."""
    config: dict[str, Any] = {"devices": grid.devices}
    if op.has(Trait.DEVICE_ID) or op.opcode == DONE:
        return config
    op = exchange_of(op)
    if op.opcode == "collective-permute":
        return config | _sources({target: source for source, target in pairs_of(op, grid)}, grid)
    members = groups_of(op, grid)
    if op.opcode == "collective-broadcast":
        return config | _sources({one: group[0] for group in members for one in group}, grid)
    groups = with_others(members, grid)
    config["groups"] = range_text(groups) or [list(group) for group in groups]
    dimensions: tuple[int, ...] = getattr(op.attributes, "dimensions", ())
    config["along"] = dimensions[0] if dimensions else 0
    called = op.called_computations
    return config | {"opcode": reducer_opcode(called[0])} if called else config


def _sources(sources: dict[int, int], grid: Grid) -> dict[str, list[int]]:
    """Return the device that each device gets the operand of; -1 if it gets zeros."""
    return {"sources": [sources.get(device, -1) for device in range(grid.devices)]}

# SPDX-License-Identifier: Apache-2.0
"""Foreign calls: the instructions for which the host program calls code that was not generated.

They are custom calls, but for assertions; `replica-id` and `partition-id`, which the runtime knows;
and the collectives that it does as a whole: one array, moved or folded between groups of devices
(`collective-expander` leaves no others). Their targets are named after their opcodes. A
collective's `config` is JSON with the number of devices, the groups or each device's source, the
dimension, and the opcode of the reducer.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.semantics.assertions import is_assertion
from ingot.semantics.call_layouts import logical_shapes
from ingot.semantics.custom_calls import CallSite, aliases_of, config_text
from ingot.semantics.device_groups import Grid, grid_of, groups_of, pairs_of, with_others
from ingot.semantics.device_ranges import range_text
from ingot.semantics.reducers import reducer_opcode
from ingot.support.records import replace

RUNTIME_COLLECTIVES = ops_with(Trait.EXCHANGE)
"""The collectives that the runtime does."""
RUNTIME_OPS = RUNTIME_COLLECTIVES | ops_with(Trait.DEVICE_ID)
"""The ops of HLO that are foreign calls."""


def is_foreign_call(instruction: Instruction) -> bool:
    """Whether the host program calls code that was not generated for this instruction."""
    if instruction.opcode in RUNTIME_OPS:
        return True
    return instruction.opcode == "custom-call" and not is_assertion(instruction)


def foreign_calls(module: Module) -> list[Instruction]:
    """Return the module's foreign calls in a fixed order: that of the artifact."""
    return [
        instruction
        for computation in module.post_order()
        for instruction in computation.calls_and_effects
        if is_foreign_call(instruction)
    ]


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
    is_call = instruction.opcode == "custom-call"
    return instruction.attributes.custom_call_target if is_call else instruction.opcode


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
        op.opcode,
        tuple(operand.shape for operand in op.operands),
        (op.shape,),
        json.dumps(_config_of(op, grid), sort_keys=True),
        side_effect=op.has(Trait.SIDE_EFFECT),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
    )


def _config_of(op: Instruction, grid: Grid) -> dict[str, Any]:
    """Return what the runtime must know of an op besides its shapes."""
    config: dict[str, Any] = {"devices": grid.devices}
    if op.has(Trait.DEVICE_ID):
        return config
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

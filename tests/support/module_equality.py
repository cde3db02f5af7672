# SPDX-License-Identifier: Apache-2.0
"""Structural equality of modules: what differs, in words, or nothing.

Two modules are equal when computations, instructions, names, shapes with layouts, attributes,
metadata, what is kept as text, aliases and schedules are; users lists and identity do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module


def assert_equal(left: Module, right: Module) -> None:
    """Fail with the differences unless both modules are equal."""
    found = list(differences(left, right))
    assert not found, "\n".join(found)


def differences(left: Module, right: Module) -> Iterator[str]:
    """Yield every difference between two modules."""
    for name in ("name", "aliases", "extra"):
        yield from _compare(f"module {name}", getattr(left, name), getattr(right, name))
    yield from _compare("entry", left.entry.name, right.entry.name)
    yield from _compare("computations", set(left.computations), set(right.computations))
    yield from _compare("scheduled", _schedule(left), _schedule(right))
    for name in left.computations.keys() & right.computations.keys():
        yield from _computation(left.computations[name], right.computations[name])


def _schedule(module: Module) -> dict[str, list[str]]:
    return {c.name: [i.name for i in order] for c, order in module.schedule.items()}


def _computation(left: Computation, right: Computation) -> Iterator[str]:
    place = f"computation {left.name}"
    yield from _compare(f"{place}: root", left.root.name, right.root.name)
    old = {instruction.name: instruction for instruction in left.instructions}
    new = {instruction.name: instruction for instruction in right.instructions}
    yield from _compare(f"{place}: names", set(old), set(new))
    yield from _compare(f"{place}: parameters", _names(left.parameters), _names(right.parameters))
    for name in old.keys() & new.keys():
        for what, value in _facts(old[name]).items():
            yield from _compare(f"%{name}: {what}", value, _facts(new[name])[what])


def _facts(instruction: Instruction) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "opcode": instruction.opcode,
        "shape": instruction.shape,
        "operands": _names(instruction.operands),
        "metadata": instruction.metadata,
        "extra": instruction.extra,
        "control predecessors": _names(instruction.control_predecessors),
    }
    for row in fields(instruction.attributes):
        facts[row.name] = _value(getattr(instruction.attributes, row.name))
    return facts


def _value(value: Any) -> Any:
    if isinstance(value, Computation):
        return value.name
    if isinstance(value, tuple):
        return tuple(_value(each) for each in value)
    return value


def _names(instructions: Any) -> list[str]:
    return [instruction.name for instruction in instructions]


def _compare(what: str, left: Any, right: Any) -> Iterator[str]:
    if left != right:
        yield f"{what}: {left} is not {right}"

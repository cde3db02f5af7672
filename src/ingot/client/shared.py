"""The compilation cache of this process: equal programs that are alive are one executable.

`client.compile` asks it, so that it serves `ingot.compile`, TensorFlow and JAX alike; kernels and
their objects have caches of their own below (`cpu.kernels`, `llvm.cache`). A program is its graph
with names, metadata and constants' bits, the target and all switches. Invariant: what two callers
share has no state and calls nobody: no random generator, callback, collective or feed. Programs
with large constants are not shared.

Example:
    >>> from ingot import compile, parse_hlo
    >>> text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    >>> compile(parse_hlo(text)) is compile(parse_hlo(text))
    True
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any

from ingot.client.executable import Executable
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import OpDef
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.xla_flags import XlaFlags

_MOST_CONSTANT_BYTES = 4 << 10
_KEPT = 32
_KEPT_INSTRUCTIONS = 500
"""So many small programs stay without anybody holding them: functions are often made anew."""


class Key:
    """A program and how it is compiled; the hash knows less of it than the comparison."""

    __slots__ = ("_hash", "_rows", "_settings")

    def __init__(self, rows: list[Any], settings: tuple[object, ...]) -> None:
        """Tell programs apart by `rows` (see `_computation`), each with its name in front."""
        self._rows = rows
        self._settings = settings
        self._hash = hash((tuple([row[0] for row in rows]), settings))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and (
            self is other or (self._settings == other._settings and self._rows == other._rows)
        )


_lock = threading.Lock()
_alive: weakref.WeakValueDictionary[Key, Executable] = weakref.WeakValueDictionary()
_latest: OrderedDict[Key, Executable] = OrderedDict()


def fingerprint(module: Module, target: TargetSpec, switches: XlaFlags) -> Key | None:
    """Return the key of a program and how it is compiled; None if it is not to be shared."""
    if switches.dump_folder or flags.DEBUG.value():
        return None
    rows: list[Any] = [(module.name, module.aliases, tuple(module.extra.items()))]
    numbers: dict[Computation, int] = {}
    constant_bytes = 0
    for computation in module.post_order():
        order = module.schedule.get(computation) or computation.post_order()
        rows.extend(_computation(computation, order, numbers))
        numbers[computation] = len(numbers)
        constant_bytes += sum(i.attributes.literal.nbytes for i in order if i.opcode == "constant")
    if constant_bytes > _MOST_CONSTANT_BYTES:
        return None
    return Key(rows, (target, switches, flags.state()))


def _computation(
    computation: Computation, order: list[Instruction], callees: dict[Computation, int]
) -> list[Any]:
    """Return a computation as rows: what it is called, then its instructions."""
    numbers = {instruction: number for number, instruction in enumerate(order)}
    rows: list[Any] = [(computation.name, numbers[computation.root])]
    for instruction in order:
        definition, attributes = instruction.definition, instruction.attributes
        rows.append(
            (
                instruction.name,
                definition,
                instruction.shape,
                _fields(definition, attributes, callees) if definition.callees else attributes,
                [numbers[operand] for operand in instruction.operands],
                [numbers[before] for before in instruction.control_predecessors],
                instruction.metadata,
                dict(instruction.extra) if instruction.extra else None,
            )
        )
    return rows


def _fields(definition: OpDef, attributes: Any, callees: dict[Computation, int]) -> list[Any]:
    """Return the attributes of an op that calls computations, with these as numbers."""
    several = dict(definition.callees)
    values: list[Any] = []
    for row in definition.fields:
        value = getattr(attributes, row.name)
        if row.name in several and value is not None:
            called = value if several[row.name] else (value,)
            value = [callees[computation] for computation in called]
        values.append(value)
    return values


def find(key: Key) -> Executable | None:
    """Return the executable of that name, if it is alive."""
    with _lock:
        found = _alive.get(key)
        if found is not None:
            _keep(key, found)
        return found


def share(key: Key, executable: Executable) -> None:
    """Let others find an executable, if it has no state and calls nobody."""
    if not executable.artifact.calls:
        with _lock:
            _alive[key] = executable
            _keep(key, executable)


def _keep(key: Key, executable: Executable) -> None:
    if executable.module.instruction_count <= _KEPT_INSTRUCTIONS:
        _latest[key] = executable
        _latest.move_to_end(key)
    while len(_latest) > _KEPT:
        _latest.popitem(last=False)


def forget() -> None:
    """Share nothing that was compiled before."""
    with _lock:
        _alive.clear()
        _latest.clear()

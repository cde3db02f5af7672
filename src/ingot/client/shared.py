# SPDX-License-Identifier: Apache-2.0
"""The compilation cache of this process: equal programs that are alive are one executable.

`client.compile` asks it, so that it serves `ingot.compile`, TensorFlow and JAX alike; kernels and
their objects have caches of their own below (`cpu.kernels`, `llvm.cache`). A program is its graph
with names, metadata and constants' bits, the target and all flags. Invariant: shared programs
have no state and call nothing outside: no random generator, callback, collective or feed. Programs
with large constants are not shared.

Example:
    >>> from ingot import compile, parse_hlo
    >>> text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"
    >>> compile(parse_hlo(text)) is compile(parse_hlo(text))
    True
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

from ingot.client.executables.executable import Executable
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import OpDef
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.forking import ForkLock
from ingot.support.xla_flags import XlaFlags

_MOST_CONSTANT_BYTES = 4 << 10
_KEPT = 32
_KEPT_INSTRUCTIONS = 500
"""Small programs that are kept alive without users: functions are often made anew."""


class Key:
    """A program and how it is compiled.

    Attributes:
        instructions: how many the program has before the passes.

    The hash knows the program's names and shapes; only programs that agree in it are written out
    as rows and compared.
    """

    __slots__ = ("_hash", "_module", "_rows", "_settings", "instructions")

    def __init__(self, module: Module, settings: tuple[object, ...]) -> None:
        """Make the key of a program that is compiled with `settings`."""
        self._module = module
        self._settings = settings
        self._rows: list[Any] | None = None
        names = tuple([(c.name, c.root.name, len(c)) for c in module.post_order()])
        shapes = (*module.parameter_shapes, module.result_shape)
        self._hash = hash((module.name, names, shapes, settings))
        self.instructions = sum([count for _, _, count in names])

    def refer_to(self, module: Module) -> None:
        """Refer to an equal module that is not changed any more."""
        self._module = module

    @property
    def rows(self) -> list[Any]:
        """The program as data, equal for equal programs."""
        if self._rows is None:
            self._rows = _rows(self._module)
        return self._rows

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and (
            self is other or (self._settings == other._settings and self.rows == other.rows)
        )


_lock = ForkLock()
_alive: weakref.WeakValueDictionary[Key, Executable] = weakref.WeakValueDictionary()
_latest: OrderedDict[Key, Executable] = OrderedDict()


def shows_compilations(xla_flags: XlaFlags) -> bool:
    """Whether dumps or logs are asked for: then every program is compiled."""
    return bool(xla_flags.dump_folder or flags.DEBUG.value())


def fingerprint(module: Module, target: TargetSpec, xla_flags: XlaFlags) -> Key | None:
    """Return the key of a program and its compile options; None if it must not be shared."""
    if shows_compilations(xla_flags):
        return None
    if module.constant_bytes > _MOST_CONSTANT_BYTES:
        return None
    return Key(module, (target, xla_flags, flags.state()))


def _rows(module: Module) -> list[Any]:
    """Return a program as rows of data, each computation after those that it calls."""
    rows: list[Any] = [(module.name, module.aliases, tuple(module.extra.items()))]
    numbers: dict[Computation, int] = {}
    for computation in module.post_order():
        order = module.schedule.get(computation) or computation.post_order()
        rows.extend(_computation(computation, order, numbers))
        numbers[computation] = len(numbers)
    return rows


def _computation(
    computation: Computation, order: list[Instruction], callees: dict[Computation, int]
) -> list[Any]:
    """Return a computation as rows: its name, then its instructions."""
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
            _retain(key, found)
        return found


def share(key: Key, executable: Executable) -> None:
    """Share an executable, if it has no state and calls nothing outside."""
    if not executable.artifact.calls:
        key.refer_to(executable.source)
        with _lock:
            _alive[key] = executable
            _retain(key, executable)


def _retain(key: Key, executable: Executable) -> None:
    if key.instructions <= _KEPT_INSTRUCTIONS:
        _latest[key] = executable
        _latest.move_to_end(key)
    while len(_latest) > _KEPT:
        _latest.popitem(last=False)


def forget() -> None:
    """Stop sharing programs that were compiled before."""
    with _lock:
        _alive.clear()
        _latest.clear()

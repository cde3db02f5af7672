# SPDX-License-Identifier: Apache-2.0
"""Modules: a whole program, its entry computation and the data that callers need.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> module = Module.of("m", b.build(b.parameter(0, "f32[2]")))
    >>> module.entry.name
    'main'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from ingot.hlo.computation import Computation, callees_first
from ingot.hlo.instruction import Instruction
from ingot.hlo.names import sanitized
from ingot.hlo.shape import Shape
from ingot.hlo.structure import StructuralCache
from ingot.support.diagnostics import InternalError
from ingot.support.records import record, replace

_Facts = TypeVar("_Facts")
_VERSION = attrgetter("version")


@record
class Alias:
    """An output that takes over a parameter's buffer (XLA's input_output_alias).

    Attributes:
        output: index path of the output in the result.
        parameter: parameter number.
        path: index path inside the parameter.
        kind: "may-alias" or "must-alias".
        survives_failure: whether the parameter is unchanged if the execution fails.
    """

    output: tuple[int, ...]
    parameter: int
    path: tuple[int, ...] = ()
    kind: str = "may-alias"
    survives_failure: bool = False


class Module:
    """A set of computations with an entry.

    Attributes:
        name: the module's name.
        computations: every computation by name; callees are found here too.
        entry: where execution starts.
        aliases: outputs that take over parameters' buffers.
        extra: header attributes that Ingot keeps but does not read.
        schedule: order of execution per computation, once the scheduler has run.
        names: instruction names in use, with the last number given to each.
        computation_names: the last number given to each computation's name.
        structural_cache: cached facts about computations of equal structure.
    """

    __slots__ = (
        "_analyses",
        "_entry",
        "aliases",
        "computation_names",
        "computations",
        "extra",
        "name",
        "names",
        "schedule",
        "structural_cache",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        """Make an empty module."""
        self.name = sanitized(name)
        self.computations: dict[str, Computation] = {}
        self.aliases: tuple[Alias, ...] = ()
        self.extra: dict[str, str] = {}
        self.schedule: dict[Computation, list[Instruction]] = {}
        self.names: dict[str, int] = {}
        self.computation_names: dict[str, int] = {}
        self.structural_cache = StructuralCache()
        self._entry: Computation | None = None
        self._analyses: dict[Callable[[Module], Any], tuple[list[object], Any]] = {}

    @staticmethod
    def of(name: str, entry: Computation) -> Module:
        """Return a module of `entry` and all computations that it calls."""
        module = Module(name)
        module.take(entry)
        module.set_entry(entry)
        return module

    def __repr__(self) -> str:
        return f"<module {self.name}, {len(self.computations)} computations>"

    @property
    def entry(self) -> Computation:
        """The entry computation."""
        assert self._entry is not None, f"module {self.name} has no entry"
        return self._entry

    def set_entry(self, entry: Computation) -> None:
        """Make `entry` the entry computation.

        Raises:
            InternalError: `entry` belongs to another module.
        """
        if entry.module is not self:
            raise InternalError(f"computation {entry.name} is not in module {self.name}")
        self._entry = entry

    def take(self, computation: Computation) -> Computation:
        """Add a computation and its callees; names are made unique."""
        for called in callees_first([computation], lambda one: one.module is self):
            called.module = self
            called.name = self._unique_computation_name(called.name)
            called.take_names(self.names)
            self.computations[called.name] = called
        return computation

    def _unique_computation_name(self, name: str) -> str:
        """Return `name`, or `name.N` when it is taken; numbers of one name only grow."""
        name = sanitized(name)
        base, _, tail = name.rpartition(".")
        base = base if base and tail.isdigit() else name
        number = self.computation_names.get(base, 0)
        while name in self.computations:
            number += 1
            name = f"{base}.{number}"
        self.computation_names[base] = number
        return name

    def remove(self, computation: Computation) -> None:
        """Remove a computation that nobody calls."""
        del self.computations[computation.name]
        computation.module = None
        self.schedule.pop(computation, None)

    def post_order(self) -> list[Computation]:
        """Return the computations reachable from the entry, callees before callers."""
        return list(self.analysis(_post_order))

    def find(self, *opcodes: str) -> Iterator[Instruction]:
        """Yield the reachable instructions of some opcodes, callees and operands first.

        Those of a computation are listed before the first is yielded, so that a pass may replace
        them meanwhile.
        """
        for computation in self.post_order():
            yield from [item for item in computation.post_order() if item.opcode in opcodes]

    def analysis(self, analyze: Callable[[Module], _Facts]) -> _Facts:
        """Return `analyze(self)`, recomputed only if a computation was edited since."""
        held = self.computations.values()
        stamp: list[object] = [self._entry, *held, *map(_VERSION, held)]
        known = self._analyses.get(analyze)
        if known is None or known[0] != stamp:
            known = self._analyses[analyze] = (stamp, analyze(self))
        return known[1]

    def drop_analyses(self) -> None:
        """Drop all cached analyses, which are not needed any more."""
        self._analyses.clear()
        self.structural_cache = StructuralCache()

    def drop_analysis(self, analyze: Callable[[Module], Any]) -> None:
        """Drop one cached analysis, because its input changed without an edit."""
        self._analyses.pop(analyze, None)

    @property
    def instruction_count(self) -> int:
        """Instructions in all computations."""
        return sum(len(c) for c in self.computations.values())

    @property
    def constant_bytes(self) -> int:
        """How many bytes the literals of its constants have."""
        return sum(item.attributes.literal.nbytes for item in self.find("constant"))

    @property
    def parameter_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the entry's parameters."""
        return tuple(p.shape for p in self.entry.parameters)

    @property
    def result_shape(self) -> Shape:
        """Shape of the entry's result."""
        return self.entry.root.shape

    def clone(self) -> Module:
        """Return a deep copy."""
        made = Module(self.name)
        made.names = dict(self.names)
        made.computation_names = dict(self.computation_names)
        copies: dict[Computation, Computation] = {}
        for computation in [*self.post_order(), *self.computations.values()]:
            if computation in copies:
                continue
            copy = computation.clone()
            copies[computation] = copy
            copy.module = made
            made.computations[copy.name] = copy
        for copy in copies.values():
            for instruction in copy.instructions:
                if instruction.definition.callees:
                    retarget(instruction, copies)
        for computation, copy in copies.items():
            if computation.verified == computation.stamp:
                copy.verified = copy.stamp
        made.set_entry(copies[self.entry])
        made.aliases = self.aliases
        made.extra = dict(self.extra)
        return made


def _post_order(module: Module) -> list[Computation]:
    return callees_first([module.entry])


def retarget(instruction: Instruction, replacements: dict[Computation, Computation]) -> None:
    """Make the instruction call the replacements of the computations that it calls."""
    set_called(instruction, [replacements.get(c, c) for c in instruction.called_computations])


def set_called(instruction: Instruction, called: Sequence[Computation]) -> None:
    """Make the instruction call `called`, in the order of its `called_computations`.

    Raises:
        InternalError: `called` has more or fewer computations than the instruction calls.
    """
    new, old = tuple(called), instruction.called_computations
    if new == old:
        return
    if len(new) != len(old):
        raise InternalError(f"{instruction.name} calls {len(old)} computations, not {len(new)}")
    attributes, rest = instruction.attributes, iter(new)
    changed: dict[str, Any] = {}
    for name, is_list in instruction.definition.callees:
        value = getattr(attributes, name)
        if is_list:
            changed[name] = tuple(islice(rest, len(value)))
        elif value is not None:
            changed[name] = next(rest)
    instruction.computation.set_attributes(instruction, replace(attributes, **changed))

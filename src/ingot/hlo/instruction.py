# SPDX-License-Identifier: Apache-2.0
"""Instructions: the nodes of the graph.

An instruction has identity. Its shape, attributes and metadata are immutable values; its position
in the graph changes only through the methods of its `Computation`, which keep users true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ingot.hlo.opdef import Attributes, OpDef, Trait, wrong_attributes
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import SourceLocation
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.computation import Computation


@record
class Metadata:
    """Where an instruction comes from in the user's program (XLA's OpMetadata).

    `more` is the text of the fields that Ingot only keeps (`scheduling_name="x"`).
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    more: str = ""

    @property
    def location(self) -> SourceLocation | None:
        """The user's file:line, or None."""
        return SourceLocation(self.source_file, self.source_line) if self.source_file else None


NO_METADATA = Metadata()


class Instruction:
    """One operation; made by `Computation.add` or a builder.

    Attributes:
        name: unique in the module, without the `%`.
        definition: row of the op table.
        opcode: XLA's opcode text, which is the row's name.
        operands: the instructions whose results this one uses.
        shape: result shape.
        attributes: instance of the op's attribute dataclass.
        metadata: where it comes from in the user's program.
        users: every instruction that has this one as operand, with how many times.
        parent: the computation that holds it.
        control_predecessors: the instructions that must run before; `run_after` sets them.
        extra: text attributes that Ingot keeps but does not read (sharding, backend_config, …).
        has_control_successors: whether this is, or once was, a control predecessor of another.
    """

    __slots__ = (
        "attributes",
        "control_predecessors",
        "definition",
        "extra",
        "has_control_successors",
        "metadata",
        "name",
        "opcode",
        "operands",
        "parent",
        "shape",
        "users",
    )

    def __init__(
        self,
        name: str,
        definition: OpDef,
        operands: tuple[Instruction, ...],
        shape: Shape,
        attributes: Any,
        metadata: Metadata = NO_METADATA,
    ) -> None:
        """Make an instruction that is in no computation yet; its class describes the arguments."""
        self.name = name
        self.definition = definition
        self.opcode = definition.name
        self.operands = operands
        self.shape = shape
        self.attributes = attributes
        self.metadata = metadata
        self.users: dict[Instruction, int] = {}
        self.parent: Computation | None = None
        self.extra: dict[str, str] = {}
        self.has_control_successors = False
        self.control_predecessors: tuple[Instruction, ...] = ()

    def __repr__(self) -> str:
        inner = ", ".join(f"%{operand.name}" for operand in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({inner})"

    def run_after(self, before: tuple[Instruction, ...]) -> None:
        """Make `before` the instructions that must run before this one."""
        if self.parent is not None and before != self.control_predecessors:
            self.parent.version += 1
        self.control_predecessors = before
        for instruction in before:
            instruction.has_control_successors = True

    @property
    def is_ordered(self) -> bool:
        """Whether control dependencies, in either direction, say when it runs."""
        return bool(self.control_predecessors) or self.has_control_successors

    @property
    def computation(self) -> Computation:
        """The computation that holds this instruction."""
        assert self.parent is not None, f"{self.name} is in no computation"
        return self.parent

    def as_(self, wanted: type[Attributes]) -> Attributes:
        """Return the attributes, typed; InternalError INGOT0934 if they are of another class.

        Example:
            >>> from ingot.hlo.builder import Builder
            >>> from ingot.hlo.opset.shaping import IotaAttributes
            >>> b = Builder("main")
            >>> b.emit("iota", shape=Shape.array("s32", (4,)), iota_dimension=0).as_(IotaAttributes)
            IotaAttributes(iota_dimension=0)
        """
        attributes = self.attributes
        if isinstance(attributes, wanted):
            return attributes
        raise wrong_attributes(self.opcode, attributes, wanted)

    def has(self, trait: Trait) -> bool:
        """Whether the op has `trait`."""
        return trait in self.definition.traits

    @property
    def destinations(self) -> tuple[Instruction, ...]:
        """The operands that the op updates in place: each result lies where one of them does."""
        count = self.definition.destinations
        return () if count is None else self.operands[: count(len(self.operands))]

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """The computations that the attributes refer to."""
        callees = self.definition.callees
        if not callees:
            return ()
        if len(callees) == 1 and not callees[0][1]:
            called = getattr(self.attributes, callees[0][0])
            return () if called is None else (called,)
        return tuple([called for _, called in called_fields(self.definition, self.attributes)])

    @property
    def is_static(self) -> bool:
        """Whether its result and its operands have static shapes."""
        return self.shape.is_static and all(one.shape.is_static for one in self.operands)

    @property
    def is_root(self) -> bool:
        """Whether this is its computation's result."""
        return self.parent is not None and self.parent.root is self

    @property
    def use_count(self) -> int:
        """How many operand slots hold this instruction."""
        return sum(self.users.values())


def called_fields(definition: OpDef, attributes: Any) -> Iterator[tuple[str, Computation]]:
    """Yield (field name, computation) for each computation that attributes refer to."""
    for name, is_list in definition.callees:
        value = getattr(attributes, name)
        if is_list:
            for called in value:
                yield name, called
        elif value is not None:
            yield name, value

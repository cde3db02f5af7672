# SPDX-License-Identifier: Apache-2.0
"""Frames: one HLO computation being built, with the state of variables and sizes in it.

A function called with PartitionedCall is inlined: it has its own `Scope` of names and shares the
caller's frame. Bodies of loops and branches are computations of their own: they have a frame whose
variables and sizes come in through the computation's parameter.

Invariant: `state` holds, at every moment of the walk, the value of each variable there; a variable
that is not in it has no value yet.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode, TensorRef
from ingot.frontends.tensorflow.lowering.context.program import Program
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import ElementArray, Known, Value, Variable
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import InternalError
from ingot.support.records import mutable, record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Frame:
    """One computation being built."""

    def __init__(self, name: str, program: Program) -> None:
        """Start an empty computation."""
        self.program = program
        self.builder = TensorBuilder(name, program, self.symbol)
        self.state: dict[Variable, Value] = {}
        self.arrays: dict[Variable, ElementArray] = {}
        self.sizes: dict[str, Instruction] = {}
        self.refuted = ""
        """What the first of its assertions says that is known to fail."""
        self._materialized: dict[Known, Instruction] = {}

    def symbol(self, name: str) -> Instruction:
        """Return the run-time value of a named size, as `s64[]`."""
        if name not in self.sizes:
            raise InternalError(f"the size {name} has no value in {self.builder.computation.name}")
        return self.sizes[name]

    def tensor(self, value: Value) -> Instruction:
        """Return a tensor value as an instruction of this computation."""
        if isinstance(value, Instruction):
            return value
        if not isinstance(value, Known):
            raise InternalError(f"a {type(value).__name__} is used as a tensor")
        if value not in self._materialized:
            self._materialized[value] = self.builder.materialize(value)
        return self._materialized[value]


@mutable
class Scope:
    """One captured function being walked: the values of its nodes' outputs."""

    function: CapturedFunction
    frame: Frame
    values: dict[TensorRef, Value] = field(default_factory=dict[TensorRef, Value])
    packed: dict[TensorRef, list[Value]] = field(default_factory=dict[TensorRef, "list[Value]"])

    @property
    def library(self) -> Mapping[str, CapturedFunction]:
        """The functions that nodes may call."""
        return self.function.library


@record
class Site:
    """A node in its scope: what a rule is applied to."""

    node: CapturedNode
    scope: Scope

# SPDX-License-Identifier: Apache-2.0
"""The buffer table: where every value of a scheduled module lives. Data only.

A *slice* is bytes at an offset of an *allocation*: an input, an output, the constant block or the
temporary arena, as the execution ABI hands them to a program. `contents` says which values share a
buffer, and prints the table.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from ingot.analysis.aliasing import Aliasing, Path, Value
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, bound
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.support.diagnostics import InternalError
from ingot.support.records import record


@record
class Parameter:
    """`inputs[index]`, the flattened leaf of a function's parameters; never written.

    Attributes:
        index: number of the leaf.
        size: bytes.
        function: name of the called computation whose parameter it is; empty for the entry.
    """

    index: int
    size: int | Dim
    function: str = ""

    def __str__(self) -> str:
        return f"parameter {self.index}" + _of(self.function)


@record
class Output:
    """`outputs[index]`, the flattened leaf of a function's result.

    Attributes:
        index: number of the leaf.
        size: bytes.
        parameter: flattened number of the parameter whose buffer it takes over, or None. The
            program copies the input here first if the pointers differ.
        function: name of the called computation whose result it is; empty for the entry.
    """

    index: int
    size: int | Dim
    parameter: int | None = None
    function: str = ""

    def __str__(self) -> str:
        taken = "" if self.parameter is None else f" (takes over parameter {self.parameter})"
        return f"output {self.index}{_of(self.function)}{taken}"


@record
class Constant:
    """The constant block; never written."""

    size: int

    def __str__(self) -> str:
        return "constant"


@record
class Temp:
    """The temporary arena."""

    size: int | Dim

    def __str__(self) -> str:
        return "temp"


Allocation: TypeAlias = Parameter | Output | Constant | Temp


def _of(function: str) -> str:
    return f" of {function}" if function else ""


@record
class Ends:
    """Buffers that the callers of a function pass.

    Attributes:
        parameters: allocation per flattened leaf of its parameters (None: a token). A parameter
            that an output takes over has that output's allocation.
        outputs: allocation per flattened leaf of its result (None: a token).
    """

    parameters: tuple[Allocation | None, ...]
    outputs: tuple[Allocation | None, ...]


@record
class Slice:
    """Bytes of an allocation."""

    allocation: Allocation
    offset: int | Dim
    size: int | Dim

    def __str__(self) -> str:
        return f"{self.allocation} at {self.offset}, {self.size} bytes"


@record
class PlacedConstant:
    """A literal (an array) and its offset in the constant block."""

    literal: Literal
    offset: int


@record
class BufferAssignment:
    """Where every leaf of every scheduled instruction lives.

    Attributes:
        aliasing: which value each leaf holds.
        slices: slice of every value.
        ends: of each function, the entry first.
        temp: the arena.
        constant: the constant block.
        constants: its contents, by offset.
        scratch_offset: where in the arena kernels may scratch, one kernel at a time.
        donations: (output, parameter, bytes) by flattened numbers, where an output takes over a
            parameter: the program copies the input to the output first if the pointers differ.
    """

    aliasing: Aliasing
    slices: dict[Value, Slice] = field(repr=False)
    ends: dict[Computation, Ends] = field(repr=False)
    temp: Temp
    constant: Constant
    constants: tuple[PlacedConstant, ...] = field(repr=False)
    scratch_offset: int | Dim
    donations: tuple[tuple[int, int, int | Dim], ...]

    @property
    def parameters(self) -> tuple[Allocation | None, ...]:
        """The buffers of the flattened leaves of the entry's parameters."""
        return self.ends[self.aliasing.module.entry].parameters

    @property
    def outputs(self) -> tuple[Allocation | None, ...]:
        """The buffers of the flattened leaves of the entry's result."""
        return self.ends[self.aliasing.module.entry].outputs

    @property
    def arena_bytes(self) -> int | Dim:
        """Size of the temporary arena."""
        return self.temp.size

    def largest(self) -> Value | None:
        """Return the largest value that a call allocates; symbolic sizes count as a thousand."""
        made = [value for value, one in self.slices.items() if _is_made(one.allocation)]
        return max(made, key=lambda value: bound(value.shape.bytes, 1000), default=None)

    def slice_of(self, instruction: Instruction, path: Path = ()) -> Slice:
        """Return where a leaf of an instruction lives; InternalError for tokens and tuples."""
        value = self.aliasing.value(instruction, path)
        if value is None:
            raise InternalError(
                f"leaf {path} holds nothing", code="INGOT0921", instruction=repr(instruction)
            )
        return self.slices[value]

    def slices_of(self, instruction: Instruction) -> list[tuple[Path, Slice]]:
        """Return (path, slice) of every array leaf of an instruction, in order."""
        return [
            (path, self.slice_of(instruction, path))
            for path, leaf in instruction.shape.leaves()
            if leaf.is_array
        ]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """Every allocation once: parameters, outputs, constants, temp."""
        given: list[Allocation | None] = []
        for ends in self.ends.values():
            given += (*ends.parameters, *ends.outputs)
        given += (self.constant, self.temp)
        return tuple(dict.fromkeys(a for a in given if a is not None))


def _is_made(allocation: Allocation) -> bool:
    """Whether a call of the program allocates it."""
    given = isinstance(allocation, Output) and not allocation.function
    return given or isinstance(allocation, Temp)

# SPDX-License-Identifier: Apache-2.0
"""Staged programs as data: programs run one after the other, whose sizes are known at each start.

A program that computes sizes (`hlo.size_definitions`) is cut where they are defined. The results
are *stages*, ordinary programs, and a few instructions between them, which the runtime interprets
(`runtime.executor.staged_code`). Values that are passed between stages are in the slots of a frame:
the address of the data, the address of the block to free (0: the data is not owned), and the
dimensions.

Invariant: each block is in one slot, and is freed when the program ends, even by an error, except
for those of the results. The caller may provide the memory of a result: then its slot holds the
address of that memory, and a `Run` stores the result there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ingot.support.records import record

SLOT_HEADER_WORDS = 2
"""Words of a slot before the dimensions: data, owner."""


@record
class Run:
    """Run a stage.

    Attributes:
        stage: its number.
        inputs: slots of its parameters.
        sizes: slots of the parameters after them, of which only the dimensions are read.
        outputs: slots that get its results.
        taken: (number in `outputs`, number in `inputs`) for each result that takes over a block
            that nothing reads later.
        placed: numbers in `outputs` of results whose memory the caller may provide.
    """

    stage: int
    inputs: tuple[int, ...]
    sizes: tuple[int, ...]
    outputs: tuple[int, ...]
    taken: tuple[tuple[int, int], ...] = ()
    placed: tuple[int, ...] = ()

    def __str__(self) -> str:
        run = f"stage {self.stage} of {_slots((*self.inputs, *self.sizes))}"
        over = [f"%{self.outputs[o]} over %{self.inputs[i]}" for o, i in self.taken]
        return ", ".join([f"{_slots(self.outputs)} = {run}", *over])


@record
class Define:
    """Make slot `target` an array without data, with as many elements as slot `source` says.

    Attributes:
        error: number of the message for a negative number.
    """

    source: int
    target: int
    error: int

    def __str__(self) -> str:
        return f"%{self.target} = size %{self.source}"


@record
class Copy:
    """Make slot `target` a copy of slot `source`."""

    source: int
    target: int

    def __str__(self) -> str:
        return f"%{self.target} = copy %{self.source}"


@record
class Move:
    """Move the value of slot `source` to slot `target`."""

    source: int
    target: int

    def __str__(self) -> str:
        return f"%{self.target} = move %{self.source}"


@record
class Free:
    """Empty a slot."""

    slot: int

    def __str__(self) -> str:
        return f"free %{self.slot}"


@record
class Jump:
    """Continue at an instruction."""

    target: int

    def __str__(self) -> str:
        return f"jump {self.target}"


@record
class Unless:
    """Continue at an instruction if slot `flag`, a pred[], is false."""

    flag: int
    target: int

    def __str__(self) -> str:
        return f"unless %{self.flag} jump {self.target}"


@record
class Differs:
    """Continue at an instruction if slot `index`, an s32[], is not `value`."""

    index: int
    value: int
    target: int

    def __str__(self) -> str:
        return f"if %{self.index} != {self.value} jump {self.target}"


Code: TypeAlias = Run | Define | Copy | Move | Free | Jump | Unless | Differs


@record
class SlotInfo:
    """A slot: the element type (XLA's name) and the rank of its array."""

    dtype: str
    rank: int


@record
class StagedCode:
    """The code that runs between the stages.

    Attributes:
        slots: the type of each slot.
        parameters: slots of the program's parameters, which the caller fills.
        results: slots of its results; each owns its block, unless the caller provided the memory.
        code: the instructions.
        errors: messages for instructions that fail.
        aliases: (number in `results`, number in `parameters`) for each result that may take the
            parameter's memory. The last stage writes it, when nothing else can fail.
    """

    slots: tuple[SlotInfo, ...]
    parameters: tuple[int, ...]
    results: tuple[int, ...]
    code: tuple[Code, ...]
    errors: tuple[str, ...]
    aliases: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        rows = [f"{number:4}  {item}" for number, item in enumerate(self.code)]
        rows.insert(0, f"parameters {_slots(self.parameters)}")
        alias_texts = [f"%{self.results[r]} over %{self.parameters[p]}" for r, p in self.aliases]
        return "\n".join([*rows, ", ".join([f"results {_slots(self.results)}", *alias_texts])])


def _slots(numbers: Iterable[int]) -> str:
    return f"({', '.join(f'%{number}' for number in numbers)})"

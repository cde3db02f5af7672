# SPDX-License-Identifier: Apache-2.0
"""Host programs as data: a straight line of kernel calls whose sizes are all known.

Most programs are of this kind: no loop, no branch, no foreign call, no symbolic size. Their host
program need not be compiled; the runtime interprets the steps (`ingot.runtime.executor.steps`), as
XLA:CPU does with its thunks. Everything else has a host program of machine code (`ingot.host`).

The steps are words of 8 bytes before the constants in the constant block:

    bytes up to the constants, inputs, outputs, the most slots of a step, sizes, each size,
    for each step: slots, site, (base, offset) of each slot, phases, (function, chunks) of each,
    and 0

A slot of a kernel's env holds `bases[base] + offset`, where `bases` are zero, the temporary arena,
the constants, the runtime record, the inputs and the outputs.

Invariant: a word is a number, or the name of the function whose address it becomes.

Example:
    >>> steps = Steps.of(1, 1, [0, 8, 2], [Step((Slot(4, 0), Slot(5, 0)), (("k", 2),))])
    >>> print(steps)
    k over 2 chunks: input 0, output 0
    >>> len(steps.block({"k": 4096}, b"constants"))
    201
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingot.artifact.abi import DATA_ALIGNMENT
from ingot.support.records import record

NUMBER, TEMP, CONSTANTS, RUNTIME, FIRST_INPUT = range(5)
"""Bases: zero, the arena, the constants, the runtime record, the first input. Outputs follow."""

HEADER = ("table_bytes", "inputs", "outputs", "slots", "sizes")
"""The first words."""

NO_SITE = -1
"""The site of a step that no profiler times."""

COPY = "ingot_steps_copy"
"""A kernel of the runtime: copy from slot 1 to slot 0, slot 2 bytes, unless they are the same."""

COPIED_BYTES = 256 << 10
"""Bytes that a chunk of it copies: a large array is shared between threads. With two, a copy of
6.4 MB took 0.53 of the time (Sapphire Rapids, 2026-12-01)."""

WORD_BYTES = 8

Word = int | str


@record
class Slot:
    """A slot of env: an offset from a base, or a function's address."""

    base: int
    offset: Word


@record
class Step:
    """A kernel call.

    Attributes:
        slots: the words of env.
        phases: the function and the chunks of each parallel loop.
        site: its number for a profiler.
    """

    slots: tuple[Slot, ...]
    phases: tuple[tuple[str, int], ...]
    site: int = NO_SITE


@record
class Steps:
    """A host program as words."""

    words: tuple[Word, ...]

    @classmethod
    def of(cls, inputs: int, outputs: int, sizes: Sequence[int], steps: Sequence[Step]) -> Steps:
        """Return the words of some steps; `sizes` are those that `S_sizes` stores."""
        words: list[Word] = [*sizes]
        for step in steps:
            words += (len(step.slots), step.site)
            for slot in step.slots:
                words += (slot.base, slot.offset)
            words.append(len(step.phases))
            for phase in step.phases:
                words += phase
        words.append(0)
        size = (len(HEADER) + len(words)) * WORD_BYTES
        table_bytes = -(-size // DATA_ALIGNMENT) * DATA_ALIGNMENT
        most = max((len(step.slots) for step in steps), default=0)
        return cls((table_bytes, inputs, outputs, most, len(sizes), *words))

    def block(self, addresses: Mapping[Word, int], constants: bytes) -> bytes:
        """Return the constant block of the linked program; KeyError if a function is missing."""
        linked: list[Any] = list(map(addresses.get, self.words, self.words))
        try:
            table = struct.pack(f"<{len(linked)}q", *linked)
        except struct.error as error:
            raise KeyError(next(word for word in linked if isinstance(word, str))) from error
        return table.ljust(linked[0], b"\0") + constants

    def __len__(self) -> int:
        """Return the bytes before the constants."""
        return _number(iter(self.words))

    def __str__(self) -> str:
        """Return the steps as lines of text."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        words = iter(self.words)
        _, inputs, _, _, sizes = (_number(words) for _ in HEADER)
        for _ in range(sizes):
            next(words)
        while count := _number(words):
            next(words)
            slots = [_slot_text(_number(words), next(words), inputs) for _ in range(count)]
            calls = [f"{next(words)} over {next(words)} chunks" for _ in range(_number(words))]
            yield f"{', '.join(calls)}: {', '.join(slots)}"


def _number(words: Iterator[Word]) -> int:
    word = next(words)
    assert isinstance(word, int), "counts and bases are numbers"
    return word


def _slot_text(base: int, offset: Word, inputs: int) -> str:
    if base == NUMBER:
        return str(offset)
    first_output = FIRST_INPUT + inputs
    if base >= first_output:
        name = f"output {base - first_output}"
    elif base >= FIRST_INPUT:
        name = f"input {base - FIRST_INPUT}"
    else:
        name = {TEMP: "temp", CONSTANTS: "constants", RUNTIME: "runtime"}[base]
    return f"{name} at {offset}" if offset else name

# SPDX-License-Identifier: Apache-2.0
"""A program of stages, encoded as words that native code reads, for any target.

It is made of an `artifact.stages.StagedCode` and the stages' programs. `runtime.programs.staged`
calls such a program on the CPU, `runtime.cuda.staged` on a GPU. Invariant: the record keeps alive
the words that it points to and the programs that they name.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ingot.artifact import stages
from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.artifact.stages import SLOT_HEADER_WORDS, StagedCode
from ingot.hlo.dtype import dtype
from ingot.runtime.arguments.convert import AnyArray
from ingot.runtime.executor.staged_code import (
    CODE_WORDS,
    COPY,
    DEFINE,
    DIFFERS,
    END,
    FREE,
    JUMP,
    MOVE,
    NEW,
    PLACED,
    RUN,
    UNLESS,
    WORD,
)
from ingot.runtime.native import native_runtime
from ingot.runtime.programs.execution import raise_signal_after
from ingot.runtime.programs.program import storage_of, tables_of
from ingot.runtime.records import PROGRAM, STAGED
from ingot.support.diagnostics import ExecutionError, IngotError

_FRAME_HEADER_WORDS = 1


class StageProgram(Protocol):
    """The program of a stage."""

    @property
    def info(self) -> ProgramInfo:
        """Its parameters, results and messages."""
        ...

    @property
    def record_address(self) -> int:
        """The address of its `IngotProgram`."""
        ...


P = TypeVar("P", bound=StageProgram)
A = TypeVar("A", bound=AnyArray)
"""The arrays that a program takes and gives."""


class StagedRecord(ABC, Generic[P, A]):
    """A program of stages.

    Attributes:
        code: what runs between the stages.
        programs: the stages.
        info: the program's parameters and results; sizes that are computed are None.
    """

    __slots__ = ("_interface", "_kept", "_offsets", "_record", "code", "info", "programs")

    def __init__(self, name: str, code: StagedCode, programs: Sequence[P], runtime: int) -> None:
        """Encode the code as words; `runtime` is the runtime record of the program."""
        self.code = code
        self.programs = tuple(programs)
        errors = tuple(text for program in programs for text in program.info.run_errors)
        self.info = ProgramInfo(name, *_interface(code, programs), run_errors=errors)
        self._offsets = _offsets(code)
        rows = [_row(item, self._offsets, programs) for item in code.code]
        words = array("q", [0] * CODE_WORDS * (len(rows) + 1))
        for number, (item, row) in enumerate(zip(code.code, rows, strict=True)):
            values = _words(item, code, self._offsets, row)
            words[number * CODE_WORDS : number * CODE_WORDS + len(values)] = array("q", values)
        words[len(rows) * CODE_WORDS] = END
        slots = array("q", self._offsets)
        record: Any = STAGED.structure()
        record.code = words.buffer_info()[0]
        record.frame_words = _frame_words(code)
        record.num_slots, record.slots = len(slots), slots.buffer_info()[0]
        self._record = record
        self._interface: Any = PROGRAM.structure()
        params, outputs, kept = tables_of(self.info)
        self._interface.runtime = runtime
        self._interface.num_params, self._interface.num_outputs = len(params), len(outputs)
        self._interface.params = ctypes.addressof(params)
        self._interface.outputs = ctypes.addressof(outputs)
        self._kept = (words, slots, rows, params, outputs, kept)

    @property
    def staged_address(self) -> int:
        """Address of the `IngotStaged` record; valid while the program lives."""
        return ctypes.addressof(self._record)

    @property
    def record_address(self) -> int:
        """Address of an `IngotProgram` record of parameters and results, without code."""
        return ctypes.addressof(self._interface)

    def slot_row(self, slot: int) -> tuple[int, int, int]:
        """Return a slot's offset in a frame, the rank of its array, and the bytes of an element."""
        info = self.code.slots[slot]
        return self._offsets[slot], info.rank, _bytes_of(dtype(info.dtype))

    def offset(self, slot: int) -> int:
        """Return the offset of a slot in a frame, in bytes."""
        return self._offsets[slot]

    def error_of(self, failed: int, arrays: Sequence[AnyArray] = ()) -> IngotError:
        """Return the exception for a result of `ingot_stages_run`."""
        item, status = self._failed(failed)
        if isinstance(item, stages.Run):
            return self.stage_error(self.programs[item.stage], status)
        if isinstance(item, stages.Define) and status > 0:
            return ExecutionError(self.code.errors[item.error], code="INGOT0516")
        return self.between_error(status, arrays)

    def run_error(self, failed: int) -> str:
        """Return the text of the assertion that failed; "" if it was something else."""
        item, status = self._failed(failed)
        if not isinstance(item, stages.Run) or status <= 0:
            return ""
        return self.programs[item.stage].info.run_errors[status - 1]

    @abstractmethod
    def stage_error(self, program: P, status: int) -> IngotError:
        """Return the exception for the status of a stage."""

    @abstractmethod
    def between_error(self, status: int, arrays: Sequence[AnyArray]) -> IngotError:
        """Return the exception for a failure between the stages."""

    def _failed(self, failed: int) -> tuple[stages.Code, int]:
        """Return the instruction that failed, and its status."""
        return self.code.code[failed >> 32], ctypes.c_int32(failed & 0xFFFFFFFF).value

    # ---- calls

    @abstractmethod
    def address_of(self, value: A) -> int:
        """Return the address of an array's memory."""

    @abstractmethod
    def made_in(self, value: A, dims: tuple[int, ...], storage: np.dtype[Any]) -> A:
        """Return the result that was made in the memory of a donated argument."""

    @abstractmethod
    def made_at(self, address: int, dims: tuple[int, ...], storage: np.dtype[Any]) -> A:
        """Return the result that was made in a block of its own."""

    def run_arrays(
        self, runtime: int, arrays: Sequence[A], taken: Collection[int]
    ) -> A | tuple[A, ...]:
        """Run the program; one result is returned as it is, several as a tuple.

        Args:
            runtime: address of the runtime record.
            arrays: arguments that fit the parameters.
            taken: indices of those whose memory results may take.

        Raises:
            ExecutionError: a check of the program failed.
            ResourceError: out of memory.
        """
        frame = array("q", bytes(_frame_words(self.code) * WORD))
        for slot, value in zip(self.code.parameters, arrays, strict=True):
            at = self._offsets[slot] // WORD
            frame[at] = self.address_of(value)
            for axis, size in enumerate(value.shape):
                frame[at + SLOT_HEADER_WORDS + axis] = size
        placed: dict[int, A] = {}
        for number, parameter in self.code.aliases:
            if parameter in taken:
                slot, value = self.code.results[number], arrays[parameter]
                frame[self._offsets[slot] // WORD] = self.address_of(value)
                placed[slot] = value
        failed = _run()(self.staged_address, frame.buffer_info()[0], runtime)
        if failed:
            raise_signal_after(self._failed(failed)[1])
            raise self.error_of(failed, arrays)
        results = tuple(self._result(frame, slot, placed.get(slot)) for slot in self.code.results)
        return results[0] if len(results) == 1 else results

    def _result(self, frame: Any, slot: int, placed: A | None) -> A:
        at, info = self._offsets[slot] // WORD, self.code.slots[slot]
        address, first = frame[at], at + SLOT_HEADER_WORDS
        dims, storage = tuple(frame[first : first + info.rank]), dtype(info.dtype).numpy
        if placed is not None and address == self.address_of(placed):
            return self.made_in(placed, dims, storage)
        return self.made_at(address, dims, storage)


@cache
def _run() -> Callable[[int, int, int], int]:
    pointers = [ctypes.c_void_p] * 3
    found: Any = native_runtime().function("ingot_stages_run", ctypes.c_int64, *pointers)
    return found


def _interface(
    code: StagedCode, programs: Sequence[StageProgram]
) -> tuple[tuple[ParamInfo, ...], tuple[OutputInfo, ...]]:
    """Return parameters and results, with the dimensions that the stages know."""
    params: dict[int, ParamInfo] = {}
    outputs: dict[int, OutputInfo] = {}
    for item in code.code:
        if isinstance(item, stages.Run):
            info = programs[item.stage].info
            inputs = (*item.inputs, *item.sizes)
            params = dict(zip(inputs, info.params, strict=True)) | params
            outputs |= dict(zip(item.outputs, info.outputs, strict=True))
    rows, aliases = code.slots, dict(code.aliases)
    return (
        tuple(
            params.get(slot, ParamInfo(rows[slot].dtype, (None,) * rows[slot].rank))
            for slot in code.parameters
        ),
        tuple(
            replace(
                outputs.get(slot, OutputInfo(rows[slot].dtype, (None,) * rows[slot].rank)),
                alias_param=aliases.get(number),
            )
            for number, slot in enumerate(code.results)
        ),
    )


def _slot_words(code: StagedCode, slot: int) -> int:
    return SLOT_HEADER_WORDS + code.slots[slot].rank


def _offsets(code: StagedCode) -> list[int]:
    found, end = list[int](), _FRAME_HEADER_WORDS * WORD
    for slot in range(len(code.slots)):
        found.append(end)
        end += _slot_words(code, slot) * WORD
    return found


def _frame_words(code: StagedCode) -> int:
    return _FRAME_HEADER_WORDS + sum(_slot_words(code, slot) for slot in range(len(code.slots)))


def _row(item: stages.Code, offsets: Sequence[int], programs: Sequence[StageProgram]) -> Any:
    """Return the words that a stage's instruction points to."""
    if not isinstance(item, stages.Run):
        return None
    inputs = (*item.inputs, *item.sizes)
    slots = [offsets[slot] for slot in (*inputs, *item.outputs)]
    blocks = dict(item.taken) | dict.fromkeys(item.placed, PLACED)
    sources = [blocks.get(number, NEW) for number in range(len(item.outputs))]
    address = programs[item.stage].record_address
    return array("q", [address, len(inputs), len(item.outputs), *slots, *sources])


def _words(item: stages.Code, code: StagedCode, offsets: Sequence[int], row: Any) -> list[int]:
    """Return an instruction as words."""
    match item:
        case stages.Run():
            return [RUN, row.buffer_info()[0]]
        case stages.Define(source, target, _):
            element = dtype(code.slots[source].dtype)
            signed = int(element.is_signed)
            return [DEFINE, offsets[source], offsets[target], _bytes_of(element), signed]
        case stages.Copy(source, target):
            size = _bytes_of(dtype(code.slots[target].dtype))
            return [COPY, offsets[source], offsets[target], _slot_words(code, target), size]
        case stages.Move(source, target):
            return [MOVE, offsets[source], offsets[target], _slot_words(code, target)]
        case stages.Free(slot):
            return [FREE, offsets[slot]]
        case stages.Jump(target):
            return [JUMP, target]
        case stages.Unless(flag, target):
            return [UNLESS, offsets[flag], target]
        case stages.Differs(index, value, target):
            return [DIFFERS, offsets[index], value, target]


def _bytes_of(element: Any) -> int:
    return storage_of(element.name).itemsize

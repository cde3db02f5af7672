# SPDX-License-Identifier: Apache-2.0
"""`StagedProgram`: a program that runs in stages on the CPU, which can be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from ingot.artifact.stages import StagedCode
from ingot.hlo.dtype import dtype
from ingot.runtime.convert import AnyArray, Array, conform_all, donated_indices, unshared
from ingot.runtime.execution import Result, donated_array, owned_array, status_error
from ingot.runtime.native import native_runtime
from ingot.runtime.program import Program
from ingot.runtime.staged_record import StagedRecord
from ingot.support.diagnostics import IngotError


class StagedProgram(StagedRecord[Program]):
    """A program of stages that takes and gives NumPy arrays."""

    __slots__ = ()

    def __init__(self, name: str, code: StagedCode, programs: Sequence[Program]) -> None:
        """Put the code into words."""
        super().__init__(name, code, programs, native_runtime().record)

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program; one result is returned as it is, several as a tuple.

        `donate`: indices of arguments whose memory results may take. If an error is raised by
        another stage than the last one, they are as they were.

        Raises:
            ExecutionError: an argument does not fit, or a check of the program failed; INGOT0514,
                the donated arguments are not arguments, each once.
            ResourceError: out of memory.
        """
        return self.run_on(native_runtime().record, *args, donate=donate)

    def run_on(self, runtime: int, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program with the runtime record at `runtime`."""
        arrays = conform_all(self.info, args)
        taken = unshared(arrays, donated_indices(len(arrays), donate))
        frame = self.new_frame([(value.ctypes.data, value.shape) for value in arrays])
        places: dict[int, Array] = {}
        for number, parameter in self.code.aliases:
            value, slot = arrays[parameter], self.code.results[number]
            if parameter in taken and value.flags.writeable:
                self.place(frame, slot, value.ctypes.data)
                places[slot] = value
        self.run_frame(frame, runtime, arrays)
        results = [self._result(frame, slot, places.get(slot)) for slot in self.code.results]
        return results[0] if len(results) == 1 else tuple(results)

    def stage_error(self, program: Program, status: int) -> IngotError:
        """Return the exception for the status of a stage."""
        return program.error_of(status)

    def between_error(self, status: int, arrays: Sequence[AnyArray]) -> IngotError:
        """Return the exception for what failed between the stages."""
        return status_error(self.info, status, arrays)

    def _result(self, frame: Any, slot: int, place: Array | None) -> Array:
        address, shape = self.value_in(frame, slot)
        storage = dtype(self.code.slots[slot].dtype).numpy
        if place is not None and address == place.ctypes.data:
            return donated_array(place, shape, storage)
        return owned_array(address, shape, storage, _free())


@cache
def _free() -> Callable[[int], None]:
    found: Any = native_runtime().function("ingot_free", None, ctypes.c_void_p)
    return found

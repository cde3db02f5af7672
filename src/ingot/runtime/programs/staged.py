# SPDX-License-Identifier: Apache-2.0
"""`StagedProgram`: a callable program that runs in stages on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import numpy as np

from ingot.artifact.stages import StagedCode
from ingot.runtime.arguments.convert import AnyArray, Array, conform_all, donated_indices, unshared
from ingot.runtime.native import native_runtime
from ingot.runtime.programs.execution import Result, donated_array, owned_array, status_error
from ingot.runtime.programs.program import Program
from ingot.runtime.programs.staged_record import StagedRecord
from ingot.support.diagnostics import IngotError


class StagedProgram(StagedRecord[Program, Array]):
    """A program of stages that takes and gives NumPy arrays."""

    __slots__ = ()

    def __init__(self, name: str, code: StagedCode, programs: Sequence[Program]) -> None:
        """Encode the code as words."""
        super().__init__(name, code, programs, native_runtime().record)

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program; one result is returned as it is, several as a tuple.

        Args:
            args: NumPy arrays, or whatever converts to them.
            donate: indices of arguments whose memory results may take. They are unchanged if any
                stage but the last one raises an error.

        Raises:
            ExecutionError: an argument does not fit, or a check of the program failed; INGOT0514,
                `donate` does not name different arguments.
            ResourceError: out of memory.
        """
        return self.run_on(native_runtime().record, *args, donate=donate)

    def run_on(self, runtime: int, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program with the runtime record at `runtime`."""
        arrays = conform_all(self.info, args)
        alone = unshared(arrays, donated_indices(len(arrays), donate))
        taken = {index for index in alone if arrays[index].flags.writeable}
        return self.run_arrays(runtime, arrays, taken)

    def stage_error(self, program: Program, status: int) -> IngotError:
        """Return the exception for the status of a stage."""
        return program.error_of(status)

    def between_error(self, status: int, arrays: Sequence[AnyArray]) -> IngotError:
        """Return the exception for a failure between the stages."""
        return status_error(self.info, status, arrays)

    def address_of(self, value: Array) -> int:
        """Return the address of an array's memory."""
        return value.ctypes.data

    def made_in(self, value: Array, dims: tuple[int, ...], storage: np.dtype[Any]) -> Array:
        """Return the result that was made in the memory of a donated argument."""
        return donated_array(value, dims, storage)

    def made_at(self, address: int, dims: tuple[int, ...], storage: np.dtype[Any]) -> Array:
        """Return the result that was made in a block of its own."""
        return owned_array(address, dims, storage, _free())


@cache
def _free() -> Callable[[int], None]:
    found: Any = native_runtime().function("ingot_free", None, ctypes.c_void_p)
    return found

# SPDX-License-Identifier: Apache-2.0
"""`CudaStagedProgram`: a callable program that runs in stages on one GPU.

The host reads a computed size, or a condition, when the stage before it is done, and allocates the
results of the next stage. Everything else is enqueued.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ingot.artifact.device_code import DEVICE_FAILED
from ingot.artifact.stages import StagedCode
from ingot.runtime.arguments.convert import AnyArray, donated_indices, require_count
from ingot.runtime.cuda.arguments import on_device, release, unshared
from ingot.runtime.cuda.arrays import DeviceArray
from ingot.runtime.cuda.devices import Device, Memory
from ingot.runtime.cuda.program import CudaProgram
from ingot.runtime.programs.execution import status_error
from ingot.runtime.programs.staged_record import StagedRecord
from ingot.support.diagnostics import IngotError


class CudaStagedProgram(StagedRecord[CudaProgram, DeviceArray]):
    """A program of stages that takes and gives arrays of a GPU.

    Attributes:
        device: the GPU.
    """

    __slots__ = ("device",)

    def __init__(
        self, name: str, code: StagedCode, programs: Sequence[CudaProgram], device: Device
    ) -> None:
        """Encode the code as words; the stages are loaded on `device`."""
        super().__init__(name, code, programs, device.runtime)
        self.device = device

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Run the program; see `CudaProgram.__call__` for arguments and results.

        Donated arguments are unchanged if any stage but the last one raises an error.

        Raises:
            ExecutionError: an argument does not fit, a check failed; INGOT0516, a computed size is
                negative; INGOT0526, the device failed.
            ResourceError: out of memory.
        """
        require_count(self.info, args)
        given = donated_indices(len(args), donate)
        arrays = on_device(self.device, args, self.info.params)
        taken = unshared(arrays, given)
        self.device.enter()
        results = self.run_arrays(self.device.runtime, arrays, taken)
        release(self.device, args, arrays)
        return results

    def address_of(self, value: DeviceArray) -> int:
        """Return the address of an array's memory."""
        return value.address

    def made_in(
        self, value: DeviceArray, dims: tuple[int, ...], storage: np.dtype[Any]
    ) -> DeviceArray:
        """Return the result that was made in the memory of a donated argument."""
        return DeviceArray(self.device, value.address, dims, storage, value.taken())

    def made_at(self, address: int, dims: tuple[int, ...], storage: np.dtype[Any]) -> DeviceArray:
        """Return the result that was made in a block of its own."""
        memory = Memory(self.device, address, math.prod(dims) * storage.itemsize)
        return DeviceArray(self.device, address, dims, storage, memory)

    def stage_error(self, program: CudaProgram, status: int) -> IngotError:
        """Return the exception for the status of a stage."""
        return program.error_of(status)

    def between_error(self, status: int, arrays: Sequence[AnyArray]) -> IngotError:
        """Return the exception for a failure between the stages."""
        if status == DEVICE_FAILED:
            return self.device.failure_error(f"'{self.info.symbol}'")
        return status_error(self.info, status, arrays)

# SPDX-License-Identifier: Apache-2.0
"""`HostedCudaProgram`: a program of a GPU that is called like those of the CPU.

Front ends whose arrays are in the memory of the host run it wherever they run programs of the CPU.
Each call copies its arguments to the GPU and its results back, and waits for them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ingot.artifact.device_code import DEVICE_FAILED
from ingot.runtime.arguments.convert import AnyArray
from ingot.runtime.cuda.library import cuda_functions
from ingot.runtime.cuda.program import CudaProgram
from ingot.runtime.cuda.records import HostedProgram
from ingot.runtime.programs.program import Program
from ingot.support.diagnostics import ExecutionError, IngotError

_HOSTED = HostedProgram.c_layout


class HostedCudaProgram(Program):
    """A program of a GPU that takes and gives arrays of the host.

    Attributes:
        on_device: the program on the GPU.
    """

    __slots__ = ("on_device",)

    def __init__(self, on_device: CudaProgram) -> None:
        """Make the record that callers of the CPU's programs use."""
        functions = cuda_functions()
        sizes, run = (functions.address(f"ingot_cuda_hosted_{name}") for name in ("sizes", "run"))
        # It waits for the GPU: other threads of Python need not.
        super().__init__(on_device.info, sizes, run, keep_alive=functions, release_gil_bytes=0)
        self.on_device = on_device
        hosted: Any = _HOSTED.structure()
        hosted.program = on_device.record_address
        hosted.runtime = on_device.device.runtime
        hosted.transfers = on_device.transfers_address
        self._record.constants = ctypes.addressof(hosted)
        self._record.kept = (*self._record.kept, hosted, on_device)
        self._record.error_of = self.error_of

    def error_of(self, status: int, arrays: Sequence[AnyArray] = ()) -> IngotError:
        """Return the exception for the status of an execution."""
        if status != DEVICE_FAILED:
            return super().error_of(status, arrays)
        error = self.on_device.error_of(status)
        if isinstance(error, ExecutionError):
            error.status = "INTERNAL"
        return error

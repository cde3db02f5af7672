# SPDX-License-Identifier: Apache-2.0
"""Executables on a GPU for callers whose arrays are in the memory of the host."""

from __future__ import annotations

from typing import Any, Literal

from ingot.client.executables.gpu_executable import GpuExecutable
from ingot.client.executables.gpu_staged import GpuStagedExecutable
from ingot.client.options import AnyStage
from ingot.hlo.module import Module
from ingot.host.kernel_info import KernelInfo
from ingot.runtime.cuda.hosted import HostedCudaProgram
from ingot.runtime.programs.staged import StagedProgram


class HostedExecutable:
    """A program of a GPU that takes and returns arrays of the host, like one of the CPU.

    Attributes:
        program: the runtime's program, for native callers of programs of the CPU.
        on_device: the executable that takes and gives arrays of the GPU.
    """

    __slots__ = ("__weakref__", "on_device", "program")

    program: HostedCudaProgram | StagedProgram

    def __init__(self, on_device: GpuExecutable | GpuStagedExecutable) -> None:
        """Let each call, or each stage of one, copy its arguments and results."""
        self.on_device = on_device
        if isinstance(on_device, GpuExecutable):
            self.program = HostedCudaProgram(on_device.program)
        else:
            found = on_device.program
            stages = [HostedCudaProgram(program) for program in found.programs]
            self.program = StagedProgram(found.info.symbol, found.code, stages)

    def __call__(self, *args: Any) -> Any:
        """Run the program on arrays of the host; see `Program.__call__`.

        Raises:
            ExecutionError: an argument does not fit; INGOT0526, the device failed.
            ResourceError: out of memory.
        """
        return self.program(*args)

    @property
    def shared_memory(self) -> int:
        """Address of the device's `IngotSharedMemory`, whose memory is not copied; 0: none."""
        return self.on_device.device.shared_memory

    @property
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""
        return self.on_device.source

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call."""
        return self.on_device.kernels

    @property
    def fusion_log(self) -> tuple[str, ...]:
        """For each edge between instructions: fused or not, and why."""
        return self.on_device.fusion_log

    def as_text(
        self, stage: AnyStage | Literal["stages"] = "hlo", *, operand_shapes: bool = False
    ) -> str:
        """Return the program at a stage of compilation: see `GpuExecutable.as_text`."""
        if isinstance(self.on_device, GpuStagedExecutable):
            return self.on_device.as_text(stage, operand_shapes=operand_shapes)
        assert stage != "stages", "it has none"
        return self.on_device.as_text(stage, operand_shapes=operand_shapes)

    def __repr__(self) -> str:
        return f"HostedExecutable({self.on_device!r})"

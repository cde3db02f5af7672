# SPDX-License-Identifier: Apache-2.0
"""Executables on a GPU: compiled programs that take and give arrays in its memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ingot.artifact.artifact import Artifact
from ingot.client.executables.inspected import InspectedProgram
from ingot.client.options import GPU_STAGES, AnyStage, GpuStage
from ingot.client.profiling.profile import remember
from ingot.client.reports.inspection import Inspection
from ingot.gpu.machine import GpuMachine, machine_for
from ingot.gpu.program import GpuProgram, compile_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host.sites import sites
from ingot.runtime.cuda.arrays import DeviceArray, to_device
from ingot.runtime.cuda.devices import Device, device
from ingot.runtime.cuda.program import CudaProgram
from ingot.semantics.device_groups import grid_of
from ingot.support.diagnostics import ArgumentError, UnsupportedError
from ingot.support.timing import PhaseTimer

PLATFORMS = ("gpu", "cuda")
"""Names of NVIDIA's GPUs in `ingot.compile(device=...)`, with a number or without: "gpu:1"."""


class GpuInspection(Inspection[GpuProgram]):
    """The stages of a compilation for a GPU."""

    @property
    def stages(self) -> tuple[GpuStage, ...]:
        """The names that `as_text` takes."""
        return GPU_STAGES

    def _makers(self, operand_shapes: bool) -> dict[AnyStage, Callable[[], str]]:
        compiled = self.compiled
        code = compiled.artifact.device
        assert code is not None, "it was compiled for a GPU"
        return {
            **super()._makers(operand_shapes),
            "llvm": lambda: f"{compiled.kernel_text}\n{compiled.host_text}",
            "ptx": lambda: code.ptx,
        }


class GpuExecutable(InspectedProgram[GpuProgram]):
    """A compiled module on a GPU.

    Calling it takes NumPy arrays, arrays of the GPU, and other libraries' arrays there (DLPack). It
    returns arrays of the GPU (`ingot.DeviceArray`), which may not be computed yet.

    Attributes:
        program: the runtime's program.
    """

    __slots__ = ("__weakref__", "_programs", "program")

    def __init__(
        self,
        compiled: GpuProgram,
        before: Module,
        context: PassContext,
        gpu: Device,
        timer: PhaseTimer,
    ) -> None:
        """Load `compiled` on `gpu`; `before` is the module before the passes."""
        stages = GpuInspection(compiled, before, context)
        super().__init__(lambda: stages, timer)
        self.program = CudaProgram(compiled.artifact, gpu, self._site_text)
        self._programs = {gpu: self.program}
        remember(self, self.program.record_address)

    def on(self, gpu: Device | None) -> CudaProgram:
        """Return the program as it is loaded on a GPU."""
        assert gpu is not None, "it was compiled for GPUs"
        found = self._programs.get(gpu)
        if found is None:
            found = CudaProgram(self.artifact, gpu, self._site_text)
            self._programs[gpu] = found
            remember(self, found.record_address)
        return found

    def _site_text(self, site: int) -> str:
        """Return the text that messages have for a site of the host program."""
        instruction = sites(self.module)[site]
        location = instruction.metadata.location
        return f"%{instruction.name}" + (f" ({location})" if location is not None else "")

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Enqueue the program on flattened arguments; see `CudaProgram.__call__`.

        Raises:
            UnsupportedError: INGOT0325, it runs on several devices: JAX does that.
        """
        grid = grid_of(self.module)
        if grid.replicas * grid.partitions > 1:
            raise _unsupported(self.module, "several replicas or partitions")
        return self.program(*args, donate=donate)

    @property
    def device(self) -> Device:
        """The GPU that it runs on."""
        return self.program.device

    @property
    def artifact(self) -> Artifact:
        """The program as data."""
        return self.inspection.compiled.artifact

    def __repr__(self) -> str:
        return f"GpuExecutable({self.module.name!r}, {len(self.kernels)} kernels, {self.device})"


def compile_for_gpu(
    module: Module, before: Module, context: PassContext, gpu: Device, timer: PhaseTimer
) -> GpuExecutable:
    """Compile a module for a GPU; it is consumed. `before` is the module as it was given.

    Raises:
        UnsupportedError: an op or element type that the GPU backend cannot run.
    """
    compiled = compile_module(module, context, machine_of_device(gpu), timer)
    with timer.phase("load"):
        return GpuExecutable(compiled, before, context, gpu, timer)


def _unsupported(module: Module, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{module.name} has {what}, which programs on a GPU may not have yet",
        code="INGOT0325",
        hint='compile it for the CPU: leave out device="gpu"',
    )


def machine_of_device(gpu: Device) -> GpuMachine:
    """Return the machine that code for a GPU is compiled for.

    Raises:
        UnsupportedError: INGOT0323, it is older than all supported machines.
    """
    return machine_for(gpu.capability, gpu.name)


def device_named(name: str) -> Device | None:
    """Return the GPU that `ingot.compile(device=name)` names; None for the CPU.

    Raises:
        ArgumentError: INGOT0513, it names no device.
        UnsupportedError: INGOT0324, there is no driver.
    """
    platform, colon, number = name.partition(":")
    if platform == "cpu" and number in ("", "0"):
        return None
    if platform in PLATFORMS and (number.isdecimal() if colon else True):
        return device(int(number or 0))
    hint = 'devices are "cpu", "gpu" and "gpu:1", "gpu:2", ...'
    raise ArgumentError(f"there is no device {name!r}", hint=hint)


def to_gpu(value: Any, number: int = 0) -> DeviceArray:
    """Return a copy of an array of the host in the memory of a GPU.

    Args:
        value: anything that NumPy converts to an array.
        number: the number of the GPU.

    Raises:
        UnsupportedError: INGOT0324, there is no driver.
        ResourceError: INGOT0401, the GPU has no memory for it.
    """
    return to_device(device(number), np.asarray(value))


def reset_gpu(number: int = 0) -> None:
    """Reset a GPU after an error that broke its context; its arrays and programs are lost."""
    device(number).reset()

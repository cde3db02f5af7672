# SPDX-License-Identifier: Apache-2.0
"""Staged executables on a GPU: programs that compute sizes, compiled stage by stage."""

from __future__ import annotations

from ingot.client.executables.gpu_executable import GpuExecutable, compile_for_gpu
from ingot.client.executables.inspected_stages import InspectedStages, stages_of
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.size_definitions import defines_sizes
from ingot.passes.expand.dynamic.boundary import exact_boundary
from ingot.runtime.cuda.devices import Device
from ingot.runtime.cuda.staged import CudaStagedProgram
from ingot.support.timing import PhaseTimer


class GpuStagedExecutable(InspectedStages[CudaStagedProgram, GpuExecutable]):
    """A compiled module that defines sizes, on a GPU; called as `GpuExecutable` is."""

    __slots__ = ()

    @property
    def device(self) -> Device:
        """The GPU that it runs on."""
        return self.program.device


def compile_any_for_gpu(
    module: Module, before: Module, context: PassContext, gpu: Device, timer: PhaseTimer
) -> GpuExecutable | GpuStagedExecutable:
    """Compile a module for a GPU, in stages if it defines sizes, or has results of dynamic size.

    `module` is consumed, `before` is a copy of it.

    Raises:
        VerifyError: INGOT0219, a size is defined twice.
        UnsupportedError: an op or element type that the GPU backend cannot run.
    """
    run_passes(exact_boundary, module, context)
    if not defines_sizes(module):
        return compile_for_gpu(module, before, context, gpu, timer)
    split = stages_of(module, context)
    stages = [compile_for_gpu(one, one.clone(), context, gpu, timer) for one in split.stages]
    programs = [stage.program for stage in stages]
    program = CudaStagedProgram(module.name, split.code, programs, gpu)
    return GpuStagedExecutable(program, tuple(stages), before, timer, context)

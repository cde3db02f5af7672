# SPDX-License-Identifier: Apache-2.0
"""The stages of a compilation, for people to look at: what `Executable.as_text` and others show.

`Inspection` is of any target, `CpuInspection` of the CPU. A program that comes from the disk
(`client.stored`) has none until somebody asks: it is compiled again then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic

from ingot.artifact.artifact import Artifact
from ingot.artifact.facts import Facts
from ingot.artifact.steps import Steps
from ingot.client.options import STAGES, AnyStage
from ingot.client.reports import analyses
from ingot.client.reports.compiled import C
from ingot.client.reports.dump import print_module
from ingot.cpu.compiler import CpuProgram
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host.kernel_info import KernelInfo, kernel_info
from ingot.host.sites import scheduled_fusions
from ingot.llvm.jit import assembly, optimized_ir
from ingot.llvm.target import TargetSpec
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.passes.buffers.contents import assignment_text
from ingot.semantics.device_groups import grid_of
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ExecutionError


class Inspection(Generic[C]):
    """The stages of one compilation.

    Attributes:
        compiled: the compiler's result.
        source: the module before the passes.
        context: the options and the records of the passes.
    """

    def __init__(self, compiled: C, source: Module, context: PassContext) -> None:
        """Hold the stages."""
        self.compiled = compiled
        self.source = source
        self.context = context
        self._kernels: tuple[KernelInfo, ...] | None = None

    @property
    def module(self) -> Module:
        """The module after all passes."""
        return self.compiled.module

    @property
    def assignment(self) -> BufferAssignment:
        """Where each value lives."""
        return self.compiled.assignment

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call, in the order in which they run."""
        if self._kernels is None:
            calls = scheduled_fusions(self.module)
            self._kernels = tuple(kernel_info(fusion, self.compiled.kernels) for fusion in calls)
            self.module.drop_analyses()
        return self._kernels

    def facts(self) -> Facts:
        """Return the facts that are stored with the program."""
        module, grid = self.module, grid_of(self.module)
        return Facts(
            module.name,
            module.instruction_count,
            (grid.replicas, grid.partitions),
            analyses.cost_analysis(self.kernels),
            analyses.memory_analysis(module, self.compiled.artifact),
        )

    @property
    @abstractmethod
    def stages(self) -> tuple[AnyStage, ...]:
        """The names that `as_text` takes."""

    def as_text(self, stage: AnyStage, *, operand_shapes: bool) -> str:
        """Return the program at a stage; see `InspectedProgram.as_text`.

        Raises:
            ExecutionError: there is no such stage; the hint lists those that there are.
        """
        require_type(stage, str, "the stage")
        maker = self._makers(operand_shapes).get(stage)
        if maker is None:
            raise ExecutionError(
                f"there is no stage '{stage}'", hint=f"stages: {', '.join(self.stages)}"
            )
        return maker()

    def _makers(self, operand_shapes: bool) -> dict[AnyStage, Callable[[], str]]:
        """Return a function for the text of each stage; here those that every target has."""
        compiled = self.compiled
        hlo = partial(print_module, with_operand_shapes=operand_shapes)
        return {
            "hlo_before": lambda: hlo(self.source),
            "hlo": lambda: hlo(compiled.module),
            "kernel_passes": lambda: "\n".join(
                f"{name} {stage}: {text}" for name, stage, text in compiled.kernels.history()
            ),
            "kernel": compiled.kernels.text,
            "schedule": compiled.kernels.schedules,
            "buffers": partial(assignment_text, compiled.assignment),
        }


class CpuInspection(Inspection[CpuProgram]):
    """The stages of a compilation for a CPU.

    Attributes:
        target: the CPU it was compiled for.
    """

    def __init__(
        self, compiled: CpuProgram, source: Module, context: PassContext, target: TargetSpec
    ) -> None:
        """Hold the stages."""
        super().__init__(compiled, source, context)
        self.target = target

    @property
    def stages(self) -> tuple[AnyStage, ...]:
        """The names that `as_text` takes."""
        return STAGES

    def _makers(self, operand_shapes: bool) -> dict[AnyStage, Callable[[], str]]:
        compiled, target = self.compiled, self.target
        code: Mapping[AnyStage, Callable[[], str]] = {
            "llvm": lambda: "\n".join(
                (*(text for text, _ in compiled.llvm_modules()), *_steps(compiled.artifact))
            ),
            "llvm_optimized": lambda: "\n".join(
                optimized_ir(text, target, how) for text, how in compiled.llvm_modules()
            ),
            "assembly": lambda: "\n".join(
                assembly(text, target, how) for text, how in compiled.llvm_modules()
            ),
        }
        return {**super()._makers(operand_shapes), **code}


def _steps(artifact: Artifact) -> list[str]:
    """Return the host program's steps, if it has no code, as comments of LLVM IR."""
    host = artifact.host
    return [f"; {line}" for line in str(host).splitlines()] if isinstance(host, Steps) else []

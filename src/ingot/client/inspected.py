# SPDX-License-Identifier: Apache-2.0
"""What can be inspected of every compiled program, on any target.

`Executable` (`client.executable`) and `GpuExecutable` (`client.gpu_executable`) derive from the
class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ingot.artifact.artifact import Artifact
from ingot.client import analyses
from ingot.client.options import AnyStage
from ingot.client.profile import Profile, profile_of
from ingot.formats.hlo_text import print_module
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host.kernel_info import KernelInfo, kernel_info
from ingot.host.program_kernels import ProgramKernels
from ingot.host.sites import scheduled_fusions
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.passes.buffers.contents import assignment_text
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ExecutionError
from ingot.support.timing import PhaseTimer


class Compiled(Protocol):
    """A compiled program of any target, with the results of its compilation's stages."""

    @property
    def artifact(self) -> Artifact:
        """The program as data."""
        ...

    @property
    def module(self) -> Module:
        """The module after all passes."""
        ...

    @property
    def kernels(self) -> ProgramKernels:
        """The kernels."""
        ...

    @property
    def assignment(self) -> BufferAssignment:
        """Where each value lives."""
        ...


C = TypeVar("C", bound=Compiled)


class InspectedProgram(analyses.Described, Generic[C]):
    """A compiled module that can be inspected.

    Attributes:
        timer: the seconds of each phase of the compilation.
    """

    __slots__ = ("_before", "_compiled", "_context", "_kernels", "timer")

    def __init__(
        self, compiled: C, before: Module, context: PassContext, timer: PhaseTimer
    ) -> None:
        """Hold `compiled`; `before` is the module before the passes."""
        self._compiled = compiled
        self._before = before
        self._context = context
        self._kernels: tuple[KernelInfo, ...] | None = None
        self.timer = timer

    def profile(self, *args: Any, runs: int = 1) -> Profile:
        """Run the program on arguments, `runs` times, and return when each kernel ran.

        Raises:
            ResourceError: INGOT0412, another profile is being recorded.
        """
        return profile_of(partial(self, *args), runs)

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """Run the program on flattened arguments."""

    def memory_analysis(self) -> analyses.MemoryAnalysis:
        """Return the bytes of code, arguments, results and temporaries, by XLA's names."""
        return analyses.memory_analysis(self.module, self.artifact)

    @property
    def artifact(self) -> Artifact:
        """The program as data."""
        return self._compiled.artifact

    @property
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""
        return self._before

    @property
    def module(self) -> Module:
        """The module after all passes; not to be changed."""
        return self._compiled.module

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call, in the order in which they run."""
        if self._kernels is None:
            self._kernels = self._rows()
            self.module.drop_analyses()
        return self._kernels

    @property
    def notes(self) -> PassContext:
        """The passes' records: decisions, rewrites, times. Not to be changed."""
        return self._context

    @property
    def assignment(self) -> BufferAssignment:
        """Where each value lives."""
        return self._compiled.assignment

    @property
    def fusion_log(self) -> tuple[str, ...]:
        """For each edge between instructions: fused or not, and why."""
        return tuple(map(str, self._context.remarks))

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Every simplification that fired: rule, location of the rule, what it replaced by what."""
        return tuple(str(firing) for firing in self._context.log)

    def as_text(self, stage: AnyStage = "hlo", *, operand_shapes: bool = False) -> str:
        """Return the program at a stage.

        Args:
            stage: one of `STAGES`: "hlo_before" and "hlo" (before and after the passes),
                "kernel_passes" (kernels as built, then after each kernel pass), "kernel", "llvm"
                and "llvm_optimized" (kernels, then the host program), "assembly", "buffers"; of a
                GPU "ptx" in place of "llvm_optimized" and "assembly".
            operand_shapes: print HLO with the shape of each operand before its name.

        Raises:
            ExecutionError: there is no such stage.
        """
        require_type(stage, str, "the stage")
        maker = self._stages(operand_shapes).get(stage)
        if maker is None:
            raise ExecutionError(
                f"there is no stage '{stage}'", hint=f"stages: {', '.join(self.stages())}"
            )
        return maker()

    @abstractmethod
    def stages(self) -> tuple[AnyStage, ...]:
        """Return the names that `as_text` takes."""

    @abstractmethod
    def _stages(self, operand_shapes: bool = False) -> Mapping[AnyStage, Callable[[], str]]:
        """Return a function for the text of each stage."""

    def _shared_stages(self, operand_shapes: bool) -> dict[AnyStage, Callable[[], str]]:
        """Return a function for each text that every target has."""
        compiled = self._compiled
        hlo = partial(print_module, with_operand_shapes=operand_shapes)
        return {
            "hlo_before": lambda: hlo(self._before),
            "hlo": lambda: hlo(compiled.module),
            "kernel_passes": lambda: "\n".join(
                f"{name} {stage}: {text}" for name, stage, text in compiled.kernels.history()
            ),
            "kernel": compiled.kernels.text,
            "buffers": partial(assignment_text, compiled.assignment),
        }

    def _rows(self) -> tuple[KernelInfo, ...]:
        compiled = self._compiled
        calls: list[Instruction] = scheduled_fusions(compiled.module)
        return tuple(kernel_info(fusion, compiled.kernels) for fusion in calls)

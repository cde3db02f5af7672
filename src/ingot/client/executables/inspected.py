# SPDX-License-Identifier: Apache-2.0
"""What can be inspected of every compiled program, on any target.

`Executable` (`client.executables.executable`) and `GpuExecutable`
(`client.executables.gpu_executable`) derive from `InspectedProgram`. Invariant: no part of the
compiler is imported here. The stages of a program that comes from the disk are made when somebody
asks for them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ingot.artifact.artifact import Artifact
from ingot.artifact.facts import Facts, MemoryAnalysis
from ingot.client.options import AnyStage
from ingot.client.profiling.profile import Profile, profile_of, sizes_of
from ingot.client.reports.analyses import Described
from ingot.client.reports.compiled import C
from ingot.hlo.module import Module
from ingot.support.timing import PhaseTimer

if TYPE_CHECKING:
    from ingot.client.reports.inspection import Inspection
    from ingot.hlo.rewrite.pass_base import PassContext
    from ingot.host.kernel_info import KernelInfo
    from ingot.passes.buffers.buffer_table import BufferAssignment


class InspectedProgram(Described, Generic[C]):
    """A compiled module that can be inspected.

    Attributes:
        timer: the seconds of each phase of the compilation.
    """

    __slots__ = ("_facts", "_inspect", "_inspection", "timer")

    def __init__(
        self, inspect: Callable[[], Inspection[C]], timer: PhaseTimer, facts: Facts | None = None
    ) -> None:
        """Hold the function that makes the stages, and the facts where they are known."""
        self._inspect = inspect
        self._inspection: Inspection[C] | None = None
        self._facts = facts
        self.timer = timer

    def profile(self, *args: Any, runs: int = 1) -> Profile:
        """Run the program on arguments, `runs` times, and return when each kernel ran.

        The work of kernels, and so what limits them, is that of these arguments' sizes.

        Raises:
            ResourceError: INGOT0412, another profile is being recorded.
        """
        return profile_of(partial(self, *args), runs, partial(sizes_of, self.source, args))

    @abstractmethod
    def __call__(self, *args: Any) -> Any:
        """Run the program on flattened arguments."""

    @property
    @abstractmethod
    def artifact(self) -> Artifact:
        """The program as data."""

    @property
    def inspection(self) -> Inspection[C]:
        """The stages of the compilation."""
        if self._inspection is None:
            self._inspection = self._inspect()
        return self._inspection

    @property
    def facts(self) -> Facts:
        """What is stored with the program."""
        if self._facts is None:
            self._facts = self.inspection.facts()
        return self._facts

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the bytes of code, arguments, results and temporaries, by XLA's names."""
        return self.facts.memory

    def cost_analysis(self) -> dict[str, Any]:
        """Return the costs of one execution, by XLA's names; see `Described.cost_analysis`."""
        return dict(self.facts.costs)

    @property
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""
        return self.inspection.source

    @property
    def module(self) -> Module:
        """The module after all passes; not to be changed."""
        return self.inspection.module

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call, in the order in which they run."""
        return self.inspection.kernels

    @property
    def notes(self) -> PassContext:
        """The passes' records: decisions, rewrites, times. Not to be changed."""
        return self.inspection.context

    @property
    def assignment(self) -> BufferAssignment:
        """Where each value lives."""
        return self.inspection.assignment

    @property
    def fusion_log(self) -> tuple[str, ...]:
        """For each edge between instructions: fused or not, and why."""
        return tuple(map(str, self.notes.remarks))

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Every simplification that fired: rule, its location, instruction and replacement."""
        return tuple(str(firing) for firing in self.notes.log)

    def as_text(self, stage: AnyStage = "hlo", *, operand_shapes: bool = False) -> str:
        """Return the program at a stage.

        Args:
            stage: one of `stages()`: "hlo_before" and "hlo" (before and after the passes),
                "kernel_passes" (kernels as built, then after each kernel pass), "kernel",
                "schedule" (how each kernel runs, and the strategies that refused it), "llvm" and
                "llvm_optimized" (kernels, then the host program), "assembly", "buffers"; of a GPU
                "ptx" in place of "llvm_optimized" and "assembly".
            operand_shapes: print HLO with the shape of each operand before its name.

        Raises:
            ExecutionError: there is no such stage.
        """
        return self.inspection.as_text(stage, operand_shapes=operand_shapes)

    def stages(self) -> tuple[AnyStage, ...]:
        """Return the names that `as_text` takes."""
        return self.inspection.stages

# SPDX-License-Identifier: Apache-2.0
"""Staged executables: programs that compute sizes, compiled stage by stage for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ingot.client.executables.executable import Executable
from ingot.client.executables.inspected_stages import InspectedStages, stages_of, stages_refused
from ingot.client.executables.serialize import write_saved
from ingot.client.reports.inspection import CpuInspection
from ingot.cpu.compiler import compile_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.llvm.target import TargetSpec
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.programs.staged import StagedProgram
from ingot.support.timing import PhaseTimer


class StagedExecutable(InspectedStages[StagedProgram, Executable]):
    """A compiled module that defines sizes. Calling it takes and gives NumPy arrays."""

    __slots__ = ()

    def run(self, *args: Any, donate: Collection[int] = (), cancellation: Cancellation) -> Any:
        """Run the program until it is done or `cancellation` ends it.

        Raises:
            ExecutionError: an argument does not fit; INGOT0511, the execution was cancelled.
            ResourceError: out of memory.
        """
        return self.program.run_on(cancellation.runtime, *args, donate=donate)

    @property
    def call(self) -> Callable[..., Any]:
        """The program without `donate`."""
        return self.program

    def execute_replicated(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Refuse: devices run one program, not stages.

        Raises:
            UnsupportedError: INGOT0361
        """
        raise stages_refused(self.source, "on several devices", "use one device")

    def with_threads(self, threads: int) -> StagedExecutable:
        """Refuse: stages run on the threads of the process.

        Raises:
            UnsupportedError: INGOT0361
        """
        where, hint = f"on {threads} threads of its own", "set num_threads for the process"
        raise stages_refused(self.source, where, hint)

    def serialize(self) -> bytes:
        """Return the program and its compile options as bytes for `ingot.load_executable`."""
        return write_saved(self.source, self._context.fp, self._context.disabled, None)

    @property
    def has_loop(self) -> bool:
        """Whether the program may repeat work an unknown number of times."""
        return True


def compile_staged(
    module: Module,
    before: Module,
    context: PassContext,
    target: TargetSpec,
    timer: PhaseTimer,
    report: Callable[[Executable], None],
) -> StagedExecutable:
    """Compile a module that defines sizes; `module` is consumed, `before` is a copy of it.

    `report` is called with each stage.

    Raises:
        VerifyError: INGOT0219, a size is defined twice.
    """
    split = stages_of(module, context)
    executables: list[Executable] = []
    for stage in split.stages:
        source = stage.clone()
        compiled = compile_module(stage, context, target, timer)
        stages = CpuInspection(compiled, source, context, target)
        executables.append(Executable.of(stages, timer))
        report(executables[-1])
    program = StagedProgram(module.name, split.code, [one.program for one in executables])
    return StagedExecutable(program, tuple(executables), before, timer, context)

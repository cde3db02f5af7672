# SPDX-License-Identifier: Apache-2.0
"""Staged executables: programs that compute sizes, compiled stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from ingot.client import analyses
from ingot.client.executable import Executable
from ingot.client.options import STAGES, Stage
from ingot.client.serialize import write_saved
from ingot.cpu.compiler import compile_module
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.host.kernel_info import KernelInfo
from ingot.llvm.target import TargetSpec
from ingot.passes.expand.pipeline import STATIC_SHAPES
from ingot.passes.simplify.inline import called_by, inline_all
from ingot.passes.stages.split import split_stages
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.staged import StagedProgram
from ingot.support.arguments import require_type
from ingot.support.diagnostics import UnsupportedError
from ingot.support.timing import PhaseTimer


class StagedExecutable:
    """A compiled module that defines sizes. Calling it takes and gives NumPy arrays.

    Attributes:
        program: the runtime's program, for native callers.
        executables: the stages.
        source: the module before the passes; nobody changes it.
        timer: where compile time went.
    """

    __slots__ = ("__weakref__", "_context", "executables", "program", "source", "timer")

    def __init__(
        self,
        program: StagedProgram,
        executables: tuple[Executable, ...],
        source: Module,
        timer: PhaseTimer,
        context: PassContext,
    ) -> None:
        """Hold what `compile_staged` made."""
        self._context = context
        self.program = program
        self.executables = executables
        self.source = source
        self.timer = timer

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Run the program on flattened arguments; see `StagedProgram.__call__`.

        Raises:
            ExecutionError: an argument does not fit; INGOT0516, a computed size is negative.
            ResourceError: out of memory.
        """
        return self.program(*args, donate=donate)

    def run(self, *args: Any, donate: Collection[int] = (), cancellation: Cancellation) -> Any:
        """Run the program until it is done or `cancellation` ends it.

        Raises:
            ExecutionError: an argument does not fit; INGOT0511, the execution was ended.
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

    @property
    def in_avals(self) -> tuple[analyses.Aval, ...]:
        """Shape and element type of each flattened argument."""
        return analyses.avals(self.source.parameter_shapes)

    @property
    def out_avals(self) -> tuple[analyses.Aval, ...]:
        """Shape and element type of each flattened result; computed sizes are symbolic."""
        return analyses.avals((self.source.result_shape,))

    def cost_analysis(self) -> dict[str, Any]:
        """Return what one execution of every stage costs: see `Executable.cost_analysis`."""
        return analyses.cost_analysis(self.kernels)

    def memory_analysis(self) -> analyses.MemoryAnalysis:
        """Refuse: what stages hand on is known only when the program runs.

        Raises:
            UnsupportedError: INGOT0361
        """
        hint = "ask each of `executables`"
        raise stages_refused(self.source, "with a known amount of memory", hint)

    def serialize(self) -> bytes:
        """Return the program and how it was compiled as bytes for `ingot.load_executable`."""
        return write_saved(self.source, self._context.fp, self._context.disabled, None)

    @property
    def fusion_log(self) -> tuple[str, ...]:
        """For each edge between instructions of a stage: fused or not, and why."""
        return self.executables[0].fusion_log if self.executables else ()

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Every simplification that fired in some stage."""
        return self.executables[0].rewrites if self.executables else ()

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call of every stage."""
        return tuple(kernel for stage in self.executables for kernel in stage.kernels)

    @property
    def has_loop(self) -> bool:
        """Whether the program may repeat something an unknown number of times."""
        return True

    def as_text(
        self, stage: Stage | Literal["stages"] = "hlo", *, operand_shapes: bool = False
    ) -> str:
        """Return the program at a stage of compilation: `Executable.as_text`, one by one.

        "hlo_before" is the whole module, "stages" what runs between the programs.
        """
        require_type(stage, str, "the stage")
        if stage == "hlo_before":
            return print_module(self.source, with_operand_shapes=operand_shapes)
        if stage == "stages":
            return str(self.program.code)
        parts = (item.as_text(stage, operand_shapes=operand_shapes) for item in self.executables)
        return "\n\n".join(parts)

    def stages(self) -> tuple[Stage | Literal["stages"], ...]:
        """Return the names that `as_text` takes."""
        return ("stages", *STAGES) if self.executables else ("stages",)

    def __repr__(self) -> str:
        return f"StagedExecutable({self.source.name!r}, {len(self.executables)} stages)"


def stages_refused(module: Module, where: str, hint: str) -> UnsupportedError:
    """Return the error for a program that computes sizes where that is not possible."""
    return UnsupportedError(
        f"{module.name} computes sizes of its arrays, and cannot run {where}",
        code="INGOT0361",
        hint=hint,
    )


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
    inline_all(module, called_by("call"))
    run_passes(STATIC_SHAPES, module, context)
    split = split_stages(module)
    executables: list[Executable] = []
    for stage in split.stages:
        source = stage.clone()
        compiled = compile_module(stage, context, target, timer)
        executables.append(Executable(compiled, source, context, target, timer))
        report(executables[-1])
    program = StagedProgram(module.name, split.code, [one.program for one in executables])
    return StagedExecutable(program, tuple(executables), before, timer, context)

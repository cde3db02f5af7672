# SPDX-License-Identifier: Apache-2.0
"""What can be inspected of every program that runs in stages, on any target.

`StagedExecutable` (`client.executables.staged`) and `GpuStagedExecutable`
(`client.executables.gpu_staged`) derive from the class.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from ingot.artifact.stages import StagedCode
from ingot.client.executables.inspected import InspectedProgram
from ingot.client.options import AnyStage
from ingot.client.profiling.profile import Profile, profile_of
from ingot.client.reports import analyses
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.host.kernel_info import KernelInfo
from ingot.support.arguments import require_type
from ingot.support.diagnostics import UnsupportedError
from ingot.support.timing import PhaseTimer

if TYPE_CHECKING:
    from ingot.passes.stages.split import Split


class RunnableStages(Protocol):
    """The runtime's program of stages, of any target."""

    @property
    def code(self) -> StagedCode:
        """The code that runs between the stages."""
        ...

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Run the program."""
        ...


R = TypeVar("R", bound=RunnableStages)
E = TypeVar("E", bound=InspectedProgram[Any])


class InspectedStages(analyses.Described, Generic[R, E]):
    """A compiled module that defines sizes.

    Attributes:
        program: the runtime's program, for native callers.
        executables: the stages.
        timer: the seconds of each phase of the compilation.
    """

    __slots__ = ("__weakref__", "_context", "_source", "executables", "program", "timer")

    def __init__(
        self,
        program: R,
        executables: tuple[E, ...],
        source: Module,
        timer: PhaseTimer,
        context: PassContext,
    ) -> None:
        """Hold the stages and the program that runs them."""
        self._context = context
        self.program = program
        self.executables = executables
        self._source = source
        self.timer = timer

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Run the program on flattened arguments; see `StagedProgram.__call__`.

        Raises:
            ExecutionError: an argument does not fit; INGOT0516, a computed size is negative.
            ResourceError: out of memory.
        """
        return self.program(*args, donate=donate)

    def profile(self, *args: Any, runs: int = 1) -> Profile:
        """Run the program on arguments, `runs` times; return when each kernel of each stage ran.

        Raises:
            ResourceError: INGOT0412, another profile is being recorded.
        """
        return profile_of(partial(self, *args), runs)

    @property
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""
        return self._source

    def memory_analysis(self) -> analyses.MemoryAnalysis:
        """Refuse: the sizes of values between stages are known only when the program runs.

        Raises:
            UnsupportedError: INGOT0361
        """
        hint = "ask each of `executables`"
        raise stages_refused(self.source, "with a known amount of memory", hint)

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

    def as_text(
        self, stage: AnyStage | Literal["stages"] = "hlo", *, operand_shapes: bool = False
    ) -> str:
        """Return the programs at a stage of compilation, one after the other.

        `stage` is one of `stages()`; see `InspectedProgram.as_text`.

        "hlo_before" is the whole module, "stages" the code that runs between the programs.
        """
        require_type(stage, str, "the stage")
        if stage == "hlo_before":
            from ingot.formats.hlo_text import print_module

            return print_module(self.source, with_operand_shapes=operand_shapes)
        if stage == "stages":
            return str(self.program.code)
        parts = (item.as_text(stage, operand_shapes=operand_shapes) for item in self.executables)
        return "\n\n".join(parts)

    def stages(self) -> tuple[AnyStage | Literal["stages"], ...]:
        """Return the names that `as_text` takes."""
        return ("stages", *(self.executables[0].stages() if self.executables else ()))

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({self.source.name!r}, {len(self.executables)} stages)"


def stages_refused(module: Module, where: str, hint: str) -> UnsupportedError:
    """Return the error for a program that computes sizes, which cannot run `where`."""
    return UnsupportedError(
        f"{module.name} computes sizes of its arrays, and cannot run {where}",
        code="INGOT0361",
        hint=hint,
    )


def stages_of(module: Module, context: PassContext) -> Split:
    """Return the stages of a module that defines sizes; it is consumed.

    Raises:
        VerifyError: INGOT0219, a size is defined twice.
    """
    from ingot.passes.expand.pipeline import STAGED_SHAPES
    from ingot.passes.inline import called_by, inline_all
    from ingot.passes.stages.split import split_stages

    inline_all(module, called_by("call"))
    run_passes(STAGED_SHAPES, module, context)
    return split_stages(module)

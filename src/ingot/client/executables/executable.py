# SPDX-License-Identifier: Apache-2.0
"""Executables: compiled programs that can be called and inspected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from ingot.artifact.artifact import Artifact
from ingot.artifact.facts import Facts
from ingot.client.executables.dynamic_sizes import DynamicSizes
from ingot.client.executables.inspected import InspectedProgram
from ingot.client.executables.linking import link
from ingot.client.executables.replicated import run_replicated
from ingot.client.executables.threads import require_threads, run_with
from ingot.client.profiling.profile import remember
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec
from ingot.runtime.arguments.convert import donated_indices
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.programs.program import Program
from ingot.semantics.device_groups import Grid
from ingot.support.arguments import require_type
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record
from ingot.support.timing import PhaseTimer

if TYPE_CHECKING:
    from ingot.client.reports.inspection import CpuInspection, Inspection
    from ingot.cpu.compiler import CpuProgram
    from ingot.cpu.kernels import KernelSet


@record
class Origin:
    """What an executable was compiled from.

    Attributes:
        name: that of the module.
        target: the CPU it was compiled for.
        source: returns the module before the passes.
        inspect: returns the stages of the compilation.
        sizes: the conversions of arguments and results of dynamic size, if there are any.
    """

    name: str
    target: TargetSpec
    source: Callable[[], Module]
    inspect: Callable[[], Inspection[CpuProgram]]
    sizes: DynamicSizes | None = None

    @staticmethod
    def of(
        source: Module, target: TargetSpec, inspect: Callable[[], Inspection[CpuProgram]]
    ) -> Origin:
        """Return the origin of a program whose module is at hand."""
        return Origin(source.name, target, lambda: source, inspect, DynamicSizes.of(source))


class Executable(InspectedProgram["CpuProgram"]):
    """A compiled module. Calling it takes and gives NumPy arrays and anything with DLPack."""

    __slots__ = ("__weakref__", "_artifact", "_origin", "_program", "_source", "_threads", "call")

    def __init__(
        self,
        artifact: Artifact,
        program: Program | None,
        origin: Origin,
        timer: PhaseTimer,
        facts: Facts | None = None,
    ) -> None:
        """Hold a program.

        Args:
            artifact: the program as data.
            program: its code in this process; None if this machine cannot run it.
            origin: the program that it was compiled from.
            timer: the seconds of the compilation.
            facts: facts about the program; default: computed when somebody asks.
        """
        super().__init__(origin.inspect, timer, facts)
        self._artifact = artifact
        self._origin = origin
        self._source: Module | None = None
        self._threads: int | None = None
        self._program = program
        self.call: Callable[..., Any] = self._refuse
        if program is not None:
            self.call = self._sized(program.call)
            remember(self, program.record_address)

    @staticmethod
    def of(stages: CpuInspection, timer: PhaseTimer) -> Executable:
        """Return the executable of a compilation; `timer` has its seconds."""
        compiled, target = stages.compiled, stages.target
        program = None
        if not target.lacking:  # Else it can only be inspected: running it would crash the process.
            program = link(compiled.artifact, compiled.kernels.imports(), compiled.kernels)
        origin = Origin.of(stages.source, target, lambda: stages)
        return Executable(compiled.artifact, program, origin, timer)

    @property
    def artifact(self) -> Artifact:
        """The program as data."""
        return self._artifact

    @property
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""
        if self._source is None:
            self._source = self._origin.source()
        return self._source

    @property
    def program(self) -> Program:
        """The code in this process.

        Raises:
            UnsupportedError: this machine cannot run code for that CPU.
        """
        if self._program is None:
            self._refuse()
        return self._program

    def _refuse(self, *args: Any) -> NoReturn:
        """Stand in for `call` if this machine cannot run the code."""
        name, target = self._origin.name, self._origin.target
        raise target.lacking_error(f"{name}, which was compiled for {target.cpu}")

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Run the program on flattened arguments; `Program.__call__` lists the kinds of argument.

        Returns the leaves of the module's result: one as it is, several as a tuple.
        `executable.call` is the same without `donate`, as a built-in function of machine code.

        Raises:
            ExecutionError: an argument does not fit.
            ResourceError: out of memory.
        """
        if (donate.__class__ is tuple or donate.__class__ is list) and not donate:
            return self.call(*args)
        if self._origin.sizes is None:
            if self._threads is not None:
                return run_with(self._threads, self.program, *args, donate=donate)
            return self.program(*args, donate=donate)
        # Arguments of dynamic size are copied to their bounds, so none is donated.
        donated_indices(len(args), donate)
        return self.call(*args)

    def run(self, *args: Any, donate: Collection[int] = (), cancellation: Cancellation) -> Any:
        """Run the program until it is done or `cancellation` ends it.

        Raises:
            ExecutionError: an argument does not fit; INGOT0511, the execution was cancelled.
            ResourceError: out of memory.
        """
        self._require_shared_pool("with a Cancellation")
        runtime, sizes = cancellation.runtime, self._origin.sizes
        if sizes is None:
            return self.program.run_on(runtime, *args, donate=donate)
        donated_indices(len(args), donate)
        return sizes.results(self.program.run_on(runtime, *sizes.arguments(args)))

    def execute_replicated(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Run on as many virtual devices as the module's header says; one argument list for each.

        Returns the results of each device, by its number `replica * num_partitions + partition`.
        """
        require_type(arguments, Sequence, "the arguments")
        self._require_shared_pool("on several devices")
        for row in arguments:
            require_type(row, Sequence, "the arguments of a device")
        grid, sizes = Grid(*self.facts.devices), self._origin.sizes
        if sizes is None:
            return run_replicated(self.program, arguments, grid)
        padded = [sizes.arguments(row) for row in arguments]
        return [sizes.results(found) for found in run_replicated(self.program, padded, grid)]

    def with_threads(self, threads: int) -> Executable:
        """Return the same program, run on `threads` threads, the caller included.

        Its results are the same. A call takes a few microseconds more than on the process's pool.

        Raises:
            ArgumentError: INGOT0513, it is not a number of threads.
        """
        require_threads(threads)
        program, other = self.program, copy.copy(self)
        other._threads = threads
        run = partial(run_with, threads, program)
        other.call = self._sized(run)
        return other

    @property
    def threads(self) -> int | None:
        """The number of threads that it was compiled for; None: those of the process."""
        return self._threads

    def _sized(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of arguments of any size, up to the bounds of the program's."""
        sizes = self._origin.sizes
        return call if sizes is None else partial(_sized_call, call, sizes)

    def _require_shared_pool(self, how: str) -> None:
        if self._threads is not None:
            raise UnsupportedError(
                f"{self._origin.name} was compiled with threads={self._threads}, "
                f"and cannot run {how}",
                code="INGOT0362",
                hint="compile it without threads=, and set num_threads for the process",
            )

    def serialize(self) -> bytes:
        """Return the program and its compile options as bytes for `ingot.load_executable`."""
        from ingot.client.executables.serialize import write_saved

        notes = self.notes
        return write_saved(self.source, notes.fp, notes.disabled, self._threads)

    def __repr__(self) -> str:
        return f"Executable({self._origin.name!r}, {len(self.kernels)} kernels)"

    @property
    def has_loop(self) -> bool:
        """Whether the program may repeat work an unknown number of times."""
        return self._artifact.has_loop

    @property
    def kernel_set(self) -> KernelSet:
        """The kernels with their code."""
        return self.inspection.compiled.kernels


def _sized_call(program: Callable[..., Any], sizes: DynamicSizes, *args: Any) -> Any:
    """Run a program with arguments or results of dynamic size."""
    return sizes.results(program(*sizes.arguments(args)))

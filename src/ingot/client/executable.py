# SPDX-License-Identifier: Apache-2.0
"""Executables: compiled programs that can be called and inspected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from ingot.artifact.steps import Steps
from ingot.client.dynamic_sizes import DynamicSizes
from ingot.client.inspected import InspectedProgram
from ingot.client.options import STAGES, AnyStage, Stage
from ingot.client.profile import remember
from ingot.client.replicated import run_replicated
from ingot.client.serialize import write_saved
from ingot.client.threads import require_threads, run_with
from ingot.cpu.compiler import CpuProgram
from ingot.cpu.kernels import KernelSet
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.llvm.jit import assembly, optimized_ir
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.convert import donated_indices
from ingot.runtime.foreign.link import link_calls
from ingot.runtime.program import DEFAULT_RELEASE_GIL_BYTES, Program
from ingot.semantics.device_groups import grid_of
from ingot.support.arguments import require_type
from ingot.support.diagnostics import UnsupportedError
from ingot.support.timing import PhaseTimer


class Executable(InspectedProgram[CpuProgram]):
    """A compiled module. Calling it takes and gives NumPy arrays and anything with DLPack.

    Attributes:
        program: the runtime's program, for native callers.
    """

    __slots__ = (
        "__weakref__",
        "_program",
        "_sizes",
        "_target",
        "_threads",
        "call",
    )  # fmt: skip

    def __init__(
        self,
        compiled: CpuProgram,
        before: Module,
        context: PassContext,
        target: TargetSpec,
        timer: PhaseTimer,
    ) -> None:
        """Link `compiled`; `before` is the module before the passes."""
        super().__init__(compiled, before, context, timer)
        self._target = target
        self._threads: int | None = None
        self._sizes = DynamicSizes.of(before)
        # Code for another machine can only be inspected: running it would crash the process.
        self._program = None if target.lacking else _linked(compiled)
        self.call: Callable[..., Any] = self._refuse
        if self._program is not None:
            self.call = self._program.call
            if self._sizes is not None:
                self.call = partial(_sized_call, self._program, self._sizes)
            remember(self, self._program.record_address)

    @property
    def program(self) -> Program:
        """The code in this process.

        Raises:
            UnsupportedError: this machine cannot run what it was compiled for.
        """
        if self._program is None:
            self._refuse()
        return self._program

    def _refuse(self, *args: Any) -> NoReturn:
        """Stand in for `call` if this machine cannot run the code."""
        what = f"{self.module.name}, which was compiled for {self._target.cpu}"
        raise self._target.lacking_error(what)

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
        if self._sizes is None:
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
        runtime, sizes = cancellation.runtime, self._sizes
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
        grid, sizes = grid_of(self._compiled.module), self._sizes
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
        other.call = run if self._sizes is None else partial(_sized_call, run, self._sizes)
        return other

    @property
    def threads(self) -> int | None:
        """The number of threads that it was compiled for; None: those of the process."""
        return self._threads

    def _require_shared_pool(self, how: str) -> None:
        if self._threads is not None:
            raise UnsupportedError(
                f"{self.module.name} was compiled with threads={self._threads}, "
                f"and cannot run {how}",
                code="INGOT0362",
                hint="compile it without threads=, and set num_threads for the process",
            )

    def serialize(self) -> bytes:
        """Return the program and its compile options as bytes for `ingot.load_executable`."""
        context = self._context
        return write_saved(self.source, context.fp, context.disabled, self._threads)

    def __repr__(self) -> str:
        kernels = len(self.kernels)
        return f"Executable({self._compiled.module.name!r}, {kernels} kernels)"

    @property
    def has_loop(self) -> bool:
        """Whether the program may repeat work an unknown number of times."""
        return has_loop(self._compiled.module)

    @property
    def kernel_set(self) -> KernelSet:
        """The kernels with their code."""
        return self._compiled.kernels

    def stages(self) -> tuple[Stage, ...]:
        """Return the names that `as_text` takes."""
        return STAGES

    def _stages(self, operand_shapes: bool = False) -> Mapping[AnyStage, Callable[[], str]]:
        compiled = self._compiled
        return {
            **self._shared_stages(operand_shapes),
            "llvm": lambda: "\n".join(
                (*(text for text, _ in compiled.llvm_modules()), *self._steps())
            ),
            "llvm_optimized": lambda: "\n".join(
                optimized_ir(text, self._target, how) for text, how in compiled.llvm_modules()
            ),
            "assembly": lambda: "\n".join(
                assembly(text, self._target, how) for text, how in compiled.llvm_modules()
            ),
        }

    def _steps(self) -> list[str]:
        """Return the host program's steps, if it has no code, as comments of LLVM IR."""
        host = self.artifact.host
        return [f"; {line}" for line in str(host).splitlines()] if isinstance(host, Steps) else []


def _sized_call(program: Callable[..., Any], sizes: DynamicSizes, *args: Any) -> Any:
    """Run a program with arguments or results of dynamic size."""
    return sizes.results(program(*sizes.arguments(args)))


def _linked(compiled: CpuProgram) -> Program:
    """Return the program; its code lives as long as it does."""
    artifact, kernels = compiled.artifact, compiled.kernels
    # A loop or a foreign call may run long on little data, without blocking other threads.
    patient = bool(artifact.calls) or has_loop(compiled.module)
    release_gil_bytes = 0 if patient else DEFAULT_RELEASE_GIL_BYTES
    if isinstance(artifact.host, Steps):
        return Program.from_steps(
            artifact.info,
            artifact.host,
            kernels.imports(),
            artifact.constants,
            keep_alive=kernels,
            release_gil_bytes=release_gil_bytes,
        )
    calls, owners = link_calls(artifact.calls)
    library = link_object([artifact.host], kernels.imports() | calls, (kernels, owners))
    return Program.from_library(
        artifact.info, library, artifact.constants, release_gil_bytes=release_gil_bytes
    )


def has_loop(module: Module) -> bool:
    """Whether the program may repeat work: it has loops or calls."""
    repeats = ("while", "call")
    return any(i.opcode in repeats for order in module.schedule.values() for i in order)

# SPDX-License-Identifier: Apache-2.0
"""Plans of kernels that need code of their own: how it is emitted, and about how long it compiles.

Made by the strategies, emitted by `cpu.kernels`. Invariant: a plan holds every decision; emitting
it chooses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.emit.loop.kernel import emit_loop_kernel
from ingot.cpu.library.parts import LibraryKernel, library_part
from ingot.kernel.contraction.epilogue import EpilogueSchedule, driver_epilogue
from ingot.kernel.expr import walk
from ingot.kernel.ir import ContractionKernel, Kernel, LoopKernel, general_kernel
from ingot.kernel.schedule.loop_schedule import Effort, LoopSchedule
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import Vectors
from ingot.llvm.optimization import PLAIN, SIMPLE, Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.cpu.emit.drivers import DriverCall

CONTRACTION_WEIGHT = 300
KERNEL_WEIGHT = 40
"""Compile time in rough units: an expression node is 1."""


K = TypeVar("K", bound=Kernel)
S = TypeVar("S")

Emit = Callable[[ModuleBuilder, str], EmittedKernel]
"""Emits the functions of a kernel, whose names begin with a symbol, into a module."""


@record
class CodePlan:
    """A kernel whose code is compiled with its program.

    Attributes:
        kernel: what it computes.
        weight: how long the code takes to compile, about, in nodes of expressions.
        emit: emits the code.
        how: what LLVM does with it.
    """

    kernel: Kernel
    weight: int
    emit: Emit
    how: Optimization

    @property
    def kernels(self) -> Iterable[Kernel]:
        """The kernels that emitters get: what is computed, and what a schedule made of it."""
        return (self.kernel,)


OF_EFFORT: Mapping[Effort, Optimization] = {
    Effort.FULL: PLAIN,
    Effort.MEMORY_BOUND: SIMPLE,
    Effort.LATENCY_BOUND: SIMPLE,
}
"""What LLVM does with loops, by the effort that their schedule asks for."""


@record
class LoopCode(CodePlan):
    """Loops of the kernel's own, as its schedule says."""

    kernel: LoopKernel
    target: TargetSpec
    schedule: LoopSchedule

    @property
    def kernels(self) -> Iterable[Kernel]:
        """The loops, and the kernels that their schedule holds."""
        return (self.kernel, *self.schedule.kernels)


def loop_code(kernel: LoopKernel, target: TargetSpec, schedule: LoopSchedule) -> LoopCode:
    """Return the plan of loops of the kernel's own."""

    def emit(module: ModuleBuilder, symbol: str) -> EmittedKernel:
        return emit_loop_kernel(module, symbol, kernel, schedule, target.has_fma)

    weight, how = KERNEL_WEIGHT + len(walk(kernel.exprs)), OF_EFFORT[schedule.effort]
    return LoopCode(kernel, weight, emit, how, target, schedule)


@record
class ScheduledCode(CodePlan):
    """Code of the kernel's own that is no loop kernel: what its schedule, a record, says."""

    schedule: object


@record
class DriverCode(CodePlan):
    """A driver of the library, with code of the kernel's own around it.

    Attributes:
        call: how the driver is called.
        epilogue: how results are made of its sums, None where they are the sums.
    """

    call: DriverCall
    epilogue: EpilogueSchedule | None


def driver_code(kernel: ContractionKernel, target: TargetSpec, call: DriverCall) -> DriverCode:
    """Return the plan of a kernel whose sums a driver of the library computes.

    Code of the kernel's own says where operands begin, or is the epilogue that takes the sums.
    """
    epilogue = None
    if call.result is None:
        epilogue = driver_epilogue(kernel, Vectors.of(target), call.n_block)

    def emit(module: ModuleBuilder, symbol: str) -> EmittedKernel:
        return call.with_code(module, symbol, kernel, epilogue, target)

    return DriverCode(kernel, KERNEL_WEIGHT, emit, PLAIN, call, epilogue)


Driven = LibraryKernel | CodePlan
"""The plan of a kernel that a driver of the library runs."""


def driven(kernel: Kernel, target: TargetSpec, call: DriverCall) -> Driven:
    """Return the plan of a driver's call.

    If the sums are the result and operands begin with their buffers, nothing is compiled; else a
    little code of the kernel's own is.
    """
    if call.needs_code:
        general = general_kernel(kernel)
        assert isinstance(general, ContractionKernel), "loop kernels have no code for a driver"
        return driver_code(general, target, call)
    parts = tuple(library_part(target, item) for item in dict.fromkeys(call.needed))
    return LibraryKernel(call.without_code(), parts)


def scheduled(
    emit_kernel: Callable[[ModuleBuilder, str, K, S, TargetSpec], EmittedKernel],
    kernel: K,
    schedule: S,
    target: TargetSpec,
    weight: int,
) -> ScheduledCode:
    """Return the plan of a kernel that is emitted by its schedule."""

    def emit(module: ModuleBuilder, symbol: str) -> EmittedKernel:
        return emit_kernel(module, symbol, kernel, schedule, target)

    return ScheduledCode(kernel, weight, emit, PLAIN, schedule)

# SPDX-License-Identifier: Apache-2.0
"""Plans of kernels that need code of their own: how it is emitted, and about how long it compiles.

Made by the strategies, emitted by `cpu.kernels`. Invariant: a plan holds every decision; emitting
it chooses nothing.
"""

from __future__ import annotations

from typing import Protocol

from ingot.cpu.emit.attention.kernel import emit_attention_kernel
from ingot.cpu.emit.contraction.kernel import emit_contraction_kernel
from ingot.cpu.emit.drivers import DriverCall
from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.emit.loop.kernel import emit_loop_kernel
from ingot.cpu.emit.sort.kernel import emit_sort_kernel
from ingot.kernel.attention.schedule import AttentionSchedule
from ingot.kernel.contraction.schedule import ContractionSchedule
from ingot.kernel.expr import walk
from ingot.kernel.ir import AttentionKernel, ContractionKernel, Kernel, LoopKernel, SortKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.sort.sort import SortSchedule
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.support.records import record

CONTRACTION_WEIGHT = 300
KERNEL_WEIGHT = 40
"""Compile time in rough units: an expression node is 1."""


class CodePlan(Protocol):
    """A kernel whose code is compiled with its program."""

    @property
    def kernel(self) -> Kernel:
        """What it computes."""
        ...

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        ...

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's functions, whose names begin with `symbol`."""
        ...


@record
class LoopCode:
    """Loops of the kernel's own, as its schedule says."""

    kernel: LoopKernel
    target: TargetSpec
    schedule: LoopSchedule

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        return KERNEL_WEIGHT + len(walk(self.kernel.exprs))

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's functions, whose names begin with `symbol`."""
        return emit_loop_kernel(module, symbol, self.kernel, self.schedule, self.target.has_fma)


@record
class DriverCode:
    """A driver of the library computes sums.

    Code of the kernel's own says where operands begin, or is the epilogue that takes the sums.
    """

    kernel: ContractionKernel
    target: TargetSpec
    call: DriverCall

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        return KERNEL_WEIGHT

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's functions, whose names begin with `symbol`."""
        return self.call.with_code(module, symbol, self.kernel, self.target)


@record
class ContractionCode:
    """A contraction with loops and micro-kernels of its own."""

    kernel: ContractionKernel
    target: TargetSpec
    schedule: ContractionSchedule

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        return CONTRACTION_WEIGHT

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's functions, whose names begin with `symbol`."""
        return emit_contraction_kernel(module, symbol, self.kernel, self.schedule, self.target)


@record
class AttentionCode:
    """Attention with loops of its own, on the micro-kernels that contractions have."""

    kernel: AttentionKernel
    target: TargetSpec
    schedule: AttentionSchedule

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        return CONTRACTION_WEIGHT

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's function, which is `symbol`."""
        return emit_attention_kernel(module, symbol, self.kernel, self.schedule, self.target)


@record
class SortCode:
    """A merge sort with the kernel's comparator in it."""

    kernel: SortKernel
    target: TargetSpec
    schedule: SortSchedule

    @property
    def weight(self) -> int:
        """How long the code takes to compile, about, in nodes of expressions."""
        return KERNEL_WEIGHT + len(walk(self.kernel.exprs))

    def emit(self, module: ModuleBuilder, symbol: str) -> EmittedKernel:
        """Emit the kernel's functions, whose names begin with `symbol`."""
        return emit_sort_kernel(module, symbol, self.kernel, self.schedule, self.target)

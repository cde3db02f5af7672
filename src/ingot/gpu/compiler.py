# SPDX-License-Identifier: Apache-2.0
"""From kernel IR to code of a GPU: `emit_kernel` adds one kernel to a module of several.

How it is launched is in the record that comes back. Invariant: equal kernels and machines give
equal text.
"""

from __future__ import annotations

from typing import TypeVar

from ingot.gpu.emit.kernel import emit_stage
from ingot.gpu.machine import GpuMachine, machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.strategies import PART, GpuSchedule, Widths
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Buffer, FftKernel, Kernel, TopKKernel
from ingot.kernel.text import fingerprint
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.support.diagnostics import InternalError
from ingot.support.records import record, replace

_Made = TypeVar("_Made")


@record
class Launch:
    """One launch of a kernel.

    Attributes:
        symbol: its name in the PTX.
        blocks: blocks of the grid, along x.
        threads: threads of a block, along x.
        shared_bytes: static shared memory of a block.
        widths: if given, it is launched once for each, which is the last parameter, as i64.
    """

    symbol: str
    blocks: int | Dim
    threads: int
    shared_bytes: int
    widths: Widths | None = None

    def __str__(self) -> str:
        room = f", {self.shared_bytes} bytes of shared memory" if self.shared_bytes else ""
        widths = self.widths
        each = f", for each width from {widths.first} below {widths.end}" if widths else ""
        return f"{self.blocks} x {self.threads} threads{room}{each}"


@record
class GpuKernel:
    """A kernel as code, and how it is launched.

    The parameters of every launch are the addresses of the kernel's buffers, those of its scratch,
    then its sizes as i64.

    Attributes:
        launches: one after the other.
        sizes: names of the symbolic sizes that it gets.
        scratch: buffers of no meaning outside of it.
        strategy: how it runs, in words.
        refused: strategies that come before it, and why each did not take the kernel.
    """

    launches: tuple[Launch, ...]
    sizes: tuple[str, ...]
    scratch: tuple[Buffer, ...]
    strategy: str
    refused: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.strategy}, {'; '.join(map(str, self.launches))}"


@record
class CompiledKernel:
    """A kernel that is a module of its own.

    Attributes:
        kernel: how it is launched.
        llvm_ir: the LLVM IR that it was made of.
        ptx: the PTX, which a driver loads.
    """

    kernel: GpuKernel
    llvm_ir: str
    ptx: str


def compile_kernel(kernel: Kernel, machine: GpuMachine | None = None) -> CompiledKernel:
    """Return the PTX of a kernel; what its schedule makes of it is verified.

    Args:
        kernel: as the kernel passes leave it.
        machine: the target (default: sm_90).

    Raises:
        UnsupportedError: INGOT0320 or INGOT0321, there is no code for an element type or op.
    """
    machine = machine or machine_of()
    symbol = f"k_{fingerprint(kernel)}"
    module = open_module(symbol, machine)
    made = emit_kernel(module, symbol, kernel, machine, verifies=True)
    text = module.text()
    return CompiledKernel(made, text, assembly(text, machine.target))


def verify_stages(schedule: GpuSchedule) -> None:
    """Check the kernels of all launches, which may write to the scratch that they share.

    Raises:
        InternalError: INGOT0932, one is not valid.
    """
    scratch = tuple(replace(buffer, is_output=True) for buffer in schedule.scratch)
    for stage in schedule.stages:
        kernel = stage.kernel
        own = kernel.buffers[: len(kernel.buffers) - len(scratch)]
        # Selections and transforms know their buffers by their order.
        is_ordered = isinstance(kernel, FftKernel | TopKKernel)
        kernel = replace(kernel, buffers=own if is_ordered else (*own, *scratch))
        verify_kernel(kernel, stage.strategy.name, launch=frozenset([PART]))


def open_module(name: str, machine: GpuMachine) -> ModuleBuilder:
    """Return an empty module for a machine."""
    module = ModuleBuilder.for_target(name, machine.target)
    # No lanes are masked here, so register widths do not matter.
    module.vector_bits = 0
    return module


def emit_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: Kernel,
    machine: GpuMachine,
    *,
    verifies: bool = False,
) -> GpuKernel:
    """Add a kernel to a module; return how it is launched.

    Args:
        module: gets the kernel's functions.
        symbol: how their names begin.
        kernel: as the kernel passes leave it.
        machine: the target.
        verifies: whether the kernels that the schedule makes of it are verified.

    Raises:
        UnsupportedError: as `compile_kernel`.
        InternalError: INGOT0932, the kernel of a launch is not valid.
    """
    schedule = schedule_kernel(kernel, machine)
    if verifies:
        verify_stages(schedule)
    launches: list[Launch] = []
    for number, stage in enumerate(schedule.stages):
        name = symbol if len(schedule.stages) == 1 else f"{symbol}_{number}"
        shared = emit_stage(module, name, stage, schedule.sizes)
        if shared > machine.shared_bytes:
            raise InternalError(
                f"a block of {stage.strategy.name} takes {shared} bytes of shared memory, more "
                f"than the {machine.shared_bytes} of {machine.name}"
            )
        launches.append(Launch(name, stage.blocks, stage.threads, shared, stage.widths))
    return GpuKernel(
        tuple(launches), schedule.sizes, schedule.scratch, schedule.strategy, schedule.refused
    )

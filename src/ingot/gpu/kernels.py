# SPDX-License-Identifier: Apache-2.0
"""Kernels of a module for a GPU: each fusion lowered, scheduled, emitted; equal kernels once.

`GpuKernelSet` gathers them in one LLVM module. Invariant: handles of launches are numbered in the
order in which the kernels were added.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.gpu.compiler import GpuKernel, emit_kernel, open_module
from ingot.gpu.machine import GpuMachine, machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host.program_kernels import ProgramKernels
from ingot.host.unsupported import with_origin
from ingot.kernel.ir import Buffer, Kernel
from ingot.llvm.jit import assembly
from ingot.llvm.machine_model import Roofline
from ingot.passes.buffers.packing import aligned
from ingot.support.diagnostics import UnsupportedError
from ingot.support.lazy import function_at_home

schedule_text = function_at_home("ingot.gpu.schedule.text", "schedule_text")


class GpuKernelSet(ProgramKernels):
    """The kernels of one program, by fusion instruction.

    Attributes:
        machine: what code is made for.
        kernels: how each is launched.
        handles: number of each launch in the table of handles, by symbol.
    """

    def __init__(self, machine: GpuMachine, context: PassContext) -> None:
        """Have no kernels."""
        super().__init__(context)
        self.machine = machine
        self.kernels: dict[str, GpuKernel] = {}
        self.handles: dict[str, int] = {}
        self._sources: dict[str, Kernel] = {}
        self._module = open_module("kernels", machine)

    @property
    def sources(self) -> Mapping[str, Kernel]:
        """The kernel IR of each kernel, by name."""
        return self._sources

    def add(self, fusion: Instruction) -> None:
        """Lower and emit the kernel of a fusion, unless an equal one was added before.

        Raises:
            UnsupportedError: as `compiler.compile_kernel`; the message names the user's op.
        """
        name, kernel = self.lowered(fusion)
        if name in self.kernels:
            return
        try:
            debug = bool(self.context.debug)
            made = emit_kernel(self._module, name, kernel, self.machine, verifies=debug)
        except UnsupportedError as error:
            raise with_origin(error, fusion.attributes.calls) from error
        self.kernels[name], self._sources[name] = made, kernel
        for launch in made.launches:
            self.handles.setdefault(launch.symbol, len(self.handles))

    def of(self, fusion: Instruction) -> GpuKernel:
        """Return how the kernel of a fusion is launched."""
        return self.kernels[self.names[fusion]]

    def strategy(self, fusion: Instruction) -> str:
        """Return in words how the kernel of a fusion runs."""
        return self.of(fusion).strategy

    def refused(self, fusion: Instruction) -> tuple[tuple[str, str], ...]:
        """Return the strategies that refused the kernel of a fusion, and their reasons."""
        return self.of(fusion).refused

    def schedule(self, name: str) -> str:
        """Return how the kernel of a name runs, and the strategies that refused it."""
        kernel = self._sources[name]
        return schedule_text(kernel, schedule_kernel(kernel, self.machine))

    @property
    def model(self) -> Roofline:
        """The rates of the machine, by the table of GPUs."""
        return self.machine.rates

    @property
    def scratch_bytes(self) -> int | Dim:
        """The scratch, in bytes, of the kernel that needs most."""
        sizes = [scratch_layout(kernel.scratch)[1] for kernel in self.kernels.values()]
        return dim.maximum(dim.greatest(sizes), 0) if sizes else 0

    def llvm_ir(self) -> str:
        """Return the LLVM IR of all kernels, one module."""
        return self._module.text()


def kernels_of(module: Module, machine: GpuMachine | None = None) -> GpuKernelSet:
    """Return the kernels of an optimized module, for a machine (default: sm_90).

    Raises:
        UnsupportedError: as `GpuKernelSet.add`.
    """
    found = GpuKernelSet(machine or machine_of(), PassContext())
    for computation in module.post_order():
        for instruction in computation.post_order():
            if instruction.opcode == "fusion":
                found.add(instruction)
    return found


STAGES = ("gpu_llvm", "ptx")
"""What `text_of` gives."""


def text_of(module: Module, stage: str, machine: GpuMachine | None = None) -> str:
    """Return the kernels of an optimized module: LLVM IR ("gpu_llvm") or PTX ("ptx").

    Comments above say how each is launched.

    Raises:
        UnsupportedError: as `kernels_of`.
    """
    found = kernels_of(module, machine)
    text, comment = found.llvm_ir(), ";"
    if stage == "ptx":
        text, comment = assembly(text, found.machine.target), "//"
    heads = (f"{comment} {name}: {kernel}" for name, kernel in found.kernels.items())
    return "\n".join([*heads, text])


def scratch_layout(scratch: tuple[Buffer, ...]) -> tuple[list[int | Dim], int | Dim]:
    """Return where each scratch buffer begins, in bytes, and the bytes of all."""
    offsets: list[int | Dim] = []
    end: int | Dim = 0
    for buffer in scratch:
        offsets.append(end)
        end = end + aligned(buffer.size * buffer.dtype.bytes)
    return offsets, end

# SPDX-License-Identifier: Apache-2.0
"""From kernel IR to PTX: `compile_kernel`, and `kernels_of` for all fusions of a module.

`text_of` prints them, as one module. How a kernel is launched is in the record that comes back;
nothing here does it. Invariant: equal kernels and machines give equal text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ingot.gpu.emit.kernel import emit_kernel
from ingot.gpu.machine import GpuMachine, machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.strategies import GpuSchedule
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.kernel.fingerprint import fingerprint
from ingot.kernel.ir import Kernel
from ingot.kernel.lowering import lower_fusion
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.semantics.custom_calls import call_site, foreign_calls
from ingot.support.diagnostics import InternalError, UnsupportedError
from ingot.support.records import record, replace

_Made = TypeVar("_Made")


@record
class GpuKernel:
    """A compiled kernel and how it is launched.

    Attributes:
        symbol: its name in the PTX.
        ptx: the PTX, which a driver loads.
        llvm_ir: the LLVM IR that it was made of.
        blocks: blocks of the grid, along x.
        threads: threads of a block, along x.
        sizes: names of the symbolic sizes that follow the buffers in the parameters, as i64.
        shared_bytes: static shared memory of a block.
        strategy: how it runs, in words.
        refused: strategies that come before it, and why each did not take the kernel.
    """

    symbol: str
    ptx: str
    llvm_ir: str
    blocks: int | Dim
    threads: int
    sizes: tuple[str, ...]
    shared_bytes: int
    strategy: str
    refused: tuple[tuple[str, str], ...]


def compile_kernel(kernel: Kernel, machine: GpuMachine | None = None) -> GpuKernel:
    """Return the PTX of a kernel.

    Args:
        kernel: as the kernel passes leave it.
        machine: what it is compiled for (default: sm_90).

    Raises:
        UnsupportedError: INGOT0322, there is no code for kernels of this kind; INGOT0320 or
            INGOT0321, none for an element type or op.
    """
    machine = machine or machine_of()
    symbol = f"k_{fingerprint(kernel)}"
    module = _open_module(symbol, machine)
    schedule, shared = _emit(module, symbol, kernel, machine)
    text = module.text()
    return GpuKernel(
        symbol,
        assembly(text, machine.target),
        text,
        schedule.blocks,
        schedule.threads,
        schedule.kernel.symbols,
        shared,
        schedule.strategy.name,
        schedule.refused,
    )


def _open_module(name: str, machine: GpuMachine) -> ModuleBuilder:
    module = ModuleBuilder.for_target(name, machine.target)
    # Nothing is masked in lanes here, so registers have no width to keep to.
    module.vector_bits = 0
    return module


def _emit(
    module: ModuleBuilder, symbol: str, kernel: Kernel, machine: GpuMachine
) -> tuple[GpuSchedule, int]:
    """Add a kernel to a module; return how it runs, and the bytes of its shared memory."""
    schedule = schedule_kernel(kernel, machine)
    shared = emit_kernel(module, symbol, schedule)
    if shared > machine.shared_bytes:
        raise InternalError(
            f"a block of {schedule.strategy.name} takes {shared} bytes of shared memory, more than "
            f"the {machine.shared_bytes} of {machine.name}"
        )
    return schedule, shared


def kernels_of(module: Module, machine: GpuMachine | None = None) -> dict[Instruction, GpuKernel]:
    """Return the kernel of every fusion of an optimized module, callees before callers.

    Raises:
        UnsupportedError: as `compile_kernel`, the message names the fusion; or INGOT0322, the
            module has a foreign call.
    """
    return {
        fusion: _naming(fusion, lambda kernel: compile_kernel(kernel, machine))
        for fusion in _fusions_of(module)
    }


STAGES = ("gpu_llvm", "ptx")
"""What `text_of` gives."""


def text_of(module: Module, stage: str, machine: GpuMachine | None = None) -> str:
    """Return the kernels of an optimized module as one module: LLVM IR ("gpu_llvm") or PTX ("ptx").

    Comments above say how each is launched; equal kernels stand there once.

    Raises:
        UnsupportedError: as `kernels_of`.
    """
    machine = machine or machine_of()
    made = _open_module(module.name, machine)
    heads: dict[str, str] = {}

    def add(kernel: Kernel) -> None:
        symbol = f"k_{fingerprint(kernel)}"
        if symbol not in heads:
            schedule, shared = _emit(made, symbol, kernel, machine)
            heads[symbol] = _head(symbol, schedule, shared)

    for fusion in _fusions_of(module):
        _naming(fusion, add)
    text = made.text()
    comment, code = ("//", assembly(text, machine.target)) if stage == "ptx" else (";", text)
    return "\n".join([*(f"{comment} {head}" for head in heads.values()), code])


def _head(symbol: str, schedule: GpuSchedule, shared: int) -> str:
    """Return one line for people: strategy and launch."""
    room = f", {shared} bytes of shared memory" if shared else ""
    return (
        f"{symbol}: {schedule.strategy.name}, {schedule.blocks} x {schedule.threads} threads{room}"
    )


def _fusions_of(module: Module) -> list[Instruction]:
    for call in foreign_calls(module):
        raise UnsupportedError(
            f"there is no GPU code for the custom call '{call_site(call).target}'",
            code="INGOT0322",
            instruction=repr(call),
        )
    return [
        instruction
        for computation in module.post_order()
        for instruction in computation.post_order()
        if instruction.opcode == "fusion"
    ]


def _naming(fusion: Instruction, use: Callable[[Kernel], _Made]) -> _Made:
    """Return what `use` makes of a fusion's kernel; an error of it names the fusion."""
    try:
        return use(lower_fusion(fusion.attributes.calls))
    except UnsupportedError as error:
        found = error.diagnostic
        raise UnsupportedError(
            replace(found, instruction=found.instruction or repr(fusion))
        ) from error

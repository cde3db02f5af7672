# SPDX-License-Identifier: Apache-2.0
"""From kernel IR to PTX: `compile_kernel`, and `kernels_of` for all fusions of a module.

`text_of` prints them, as one module. How a kernel is launched is in the record that comes back;
nothing here does it. Invariant: equal kernels and machines give equal text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ingot.gpu.emit.kernel import emit_stage
from ingot.gpu.machine import GpuMachine, machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.strategies import Widths
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.kernel.fingerprint import fingerprint
from ingot.kernel.ir import Buffer, Kernel
from ingot.kernel.lowering import lower_fusion
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.semantics.custom_calls import call_site, foreign_calls
from ingot.support.diagnostics import InternalError, UnsupportedError
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
    module = open_module(symbol, machine)
    made = emit_kernel(module, symbol, kernel, machine)
    text = module.text()
    return CompiledKernel(made, text, assembly(text, machine.target))


def open_module(name: str, machine: GpuMachine) -> ModuleBuilder:
    """Return an empty module for a machine."""
    module = ModuleBuilder.for_target(name, machine.target)
    # Nothing is masked in lanes here, so registers have no width to keep to.
    module.vector_bits = 0
    return module


def emit_kernel(
    module: ModuleBuilder, symbol: str, kernel: Kernel, machine: GpuMachine
) -> GpuKernel:
    """Add a kernel to a module; return how it is launched."""
    schedule = schedule_kernel(kernel, machine)
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


def kernels_of(
    module: Module, machine: GpuMachine | None = None
) -> dict[Instruction, CompiledKernel]:
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
    made = open_module(module.name, machine)
    heads: dict[str, str] = {}

    def add(kernel: Kernel) -> None:
        symbol = f"k_{fingerprint(kernel)}"
        if symbol not in heads:
            heads[symbol] = _head(symbol, emit_kernel(made, symbol, kernel, machine))

    for fusion in _fusions_of(module):
        _naming(fusion, add)
    text = made.text()
    comment, code = ("//", assembly(text, machine.target)) if stage == "ptx" else (";", text)
    return "\n".join([*(f"{comment} {head}" for head in heads.values()), code])


def _head(symbol: str, kernel: GpuKernel) -> str:
    """Return one line for people: strategy and launches."""
    launches = "; ".join(map(_launch_text, kernel.launches))
    return f"{symbol}: {kernel.strategy}, {launches}"


def _launch_text(launch: Launch) -> str:
    room = f", {launch.shared_bytes} bytes of shared memory" if launch.shared_bytes else ""
    widths = launch.widths
    each = f", for each width from {widths.first} below {widths.end}" if widths else ""
    return f"{launch.blocks} x {launch.threads} threads{room}{each}"


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

"""Kernels of a module: each fusion lowered, scheduled, emitted; equal kernels compiled once.

`KernelSet` gathers the kernels that one program needs. Those that this process has compiled before
are reused by address; the rest share one LLVM module, so one compilation. Objects are cached on
disk by content (`ingot.llvm.cache`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ingot.cpu.emit.contraction import emit_contraction_kernel
from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.emit.loop import emit_loop_kernel
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.kernel.collapse import collapse
from ingot.kernel.contraction import build_contraction_kernel, find_dot
from ingot.kernel.contraction_schedule import schedule_contraction
from ingot.kernel.fingerprint import fingerprint, kernel_text
from ingot.kernel.ir import ContractionKernel, Kernel
from ingot.kernel.keep import keep_rows
from ingot.kernel.loops import build_loop_kernel
from ingot.kernel.schedule import Vectors, grid_vector_axis, schedule_loops
from ingot.kernel.update import build_update_kernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import Library, compile_object, link_object
from ingot.llvm.target import TargetSpec

UPDATES = frozenset({"dynamic-update-slice", "scatter"})


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel with machine code.

    Attributes:
        name: its symbol, `k_` and the fingerprint.
        kernel: what it computes.
        emitted: how to call it.
        text: LLVM IR of the module that it was compiled in.
        object: that module's ELF object.
        library: the mapped code, kept alive.
    """

    name: str
    kernel: Kernel
    emitted: EmittedKernel
    text: str
    object: bytes
    library: Library


def lower_fusion(fused: Computation) -> Kernel:
    """Return the kernel of a fused computation."""
    if fused.root.opcode in UPDATES:
        return build_update_kernel(fused)
    if find_dot(fused) is not None:
        return build_contraction_kernel(fused)
    kernel = collapse(build_loop_kernel(fused))
    return keep_rows(kernel) if grid_vector_axis(kernel) is None else kernel


@dataclass(slots=True)
class KernelSet:
    """The kernels of one program, by fusion instruction."""

    target: TargetSpec
    names: dict[Instruction, str] = field(default_factory=dict[Instruction, str])
    pending: dict[str, Kernel] = field(default_factory=dict[str, Kernel])
    compiled: dict[str, CompiledKernel] = field(default_factory=dict[str, CompiledKernel])

    def add(self, fusion: Instruction) -> None:
        """Lower a fusion; equal ones share a kernel."""
        kernel = lower_fusion(fusion.attributes.calls)
        name = f"k_{fingerprint(kernel)}"
        self.names[fusion] = name
        known = _known.get((self.target, name))
        if known is not None:
            self.compiled[name] = known
        elif name not in self.compiled:
            self.pending.setdefault(name, kernel)

    def compile(self) -> None:
        """Compile what is pending, in one LLVM module."""
        if not self.pending:
            return
        module = ModuleBuilder("kernels")
        emitted = {
            name: emit_kernel(module, name, kernel, self.target)
            for name, kernel in self.pending.items()
        }
        text = module.text()
        data = compile_object(text, self.target)
        library = link_object([data])
        with _lock:
            for name, kernel in self.pending.items():
                made = CompiledKernel(name, kernel, emitted[name], text, data, library)
                self.compiled[name] = _known.setdefault((self.target, name), made)
        self.pending.clear()

    def of(self, fusion: Instruction) -> CompiledKernel:
        """Return the compiled kernel of a fusion."""
        return self.compiled[self.names[fusion]]

    def imports(self) -> dict[str, int]:
        """Return the addresses of every kernel function that a host program may call."""
        return {
            phase.symbol: kernel.library.address(phase.symbol)
            for kernel in self.compiled.values()
            for phase in kernel.emitted.phases
        }

    def objects(self) -> tuple[bytes, ...]:
        """Return the distinct ELF objects that hold the kernels."""
        return tuple(dict.fromkeys(kernel.object for kernel in self.compiled.values()))

    def text(self) -> str:
        """Return the kernel IR of all kernels."""
        return "\n".join(
            f"{name}: {kernel_text(kernel.kernel)}" for name, kernel in self.compiled.items()
        )


_known: dict[tuple[TargetSpec, str], CompiledKernel] = {}
_lock = threading.Lock()


def forget_kernels() -> None:
    """Compile every kernel anew from now on; code in use stays."""
    with _lock:
        _known.clear()


def emit_kernel(
    module: ModuleBuilder, name: str, kernel: Kernel, target: TargetSpec
) -> EmittedKernel:
    """Schedule a kernel for the target and emit its functions."""
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    if isinstance(kernel, ContractionKernel):
        schedule = schedule_contraction(kernel, vectors)
        return emit_contraction_kernel(module, name, kernel, schedule, target)
    return emit_loop_kernel(module, name, kernel, schedule_loops(kernel, vectors), target.has_fma)

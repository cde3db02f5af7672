# SPDX-License-Identifier: Apache-2.0
"""Host programs of the CPU: kernels are called phase by phase, on the threads of the pool."""

from __future__ import annotations

from ingot.artifact.abi import SLOT_BYTES, runtime_offset
from ingot.artifact.steps import COPIED_BYTES
from ingot.cpu.calls import KernelCalls
from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.kernels import KernelSet
from ingot.emit.values.indices import IndexValue
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, always_positive
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.host.placed import PlacedModule
from ingot.host.program import HostProgram
from ingot.kernel.ir import Kernel, LoopKernel, general_kernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import FunctionRef, Value


class CpuHostProgram(HostProgram):
    """Emits `S_run` of one module for the CPU."""

    def __init__(
        self,
        builder: ModuleBuilder,
        placed: PlacedModule,
        kernels: KernelSet,
        outer: HostProgram | None = None,
        function: Computation | None = None,
    ) -> None:
        """Emit into `builder`, as `HostProgram`; `kernels` are the emitted ones of the module."""
        super().__init__(builder, placed, outer, function)
        f = self.f
        self.kernels = kernels
        self._calls = KernelCalls(self.emitter, self.runtime, kernels)
        self._pool = f.load(lt.PTR, f.gep(self.runtime, runtime_offset("pool")), 8)
        self._parallel = f.load(lt.PTR, f.gep(self.runtime, runtime_offset("parallel")), 8)
        emitted = [kernel.emitted for kernel in kernels.compiled.values()]
        emitted += [loop.emitted for loop in kernels.loops.loops.values()]
        self._slots = max([_COPY_SLOTS, *(kernel.slots for kernel in emitted)])
        self._env = f.alloca(lt.I64, self._slots, 64)

    def part(self, function: Computation) -> CpuHostProgram:
        """Return an empty function beside this, inside of a computation's function."""
        return CpuHostProgram(self.builder, self.placed, self.kernels, self.outer, function)

    @property
    def slots(self) -> int:
        """Slots of env, of which each function has one."""
        return self._slots

    def kernel_call(self, instruction: Instruction, addresses: list[Value]) -> None:
        """Emit a small kernel in place; else its call, if it has something to write."""
        if self._calls.emitted_in_place(instruction, addresses):
            return
        kernel = self.kernels.of(instruction)
        with self.timed(instruction):
            elements = _elements(instruction.shape) if _has_rows(kernel.kernel) else 1
            if always_positive(elements):
                self._call_kernel(kernel.emitted, addresses)
            else:
                self._call_unless_empty(elements, kernel.emitted, addresses)
        if any(phase.chunks != 1 for phase in kernel.emitted.phases):
            self.poller.check(self.leave)

    def _call_unless_empty(
        self, elements: int | Dim, kernel: EmittedKernel, addresses: list[Value]
    ) -> None:
        """Call a kernel if there are elements: nothing bounds how many empty rows there are."""

        def call() -> None:
            self.emitter.open_scope()
            self._call_kernel(kernel, addresses)
            self.emitter.close_scope()

        count = self.f.as_value(self.emitter.index(elements))
        self.f.if_(self.f.icmp("ne", count, self.f.zero(lt.I64)), call, likely=True)

    def _call_kernel(self, kernel: EmittedKernel, addresses: list[Value]) -> None:
        """Fill env and run every phase of a kernel."""
        scratch = self.f.gep(self.temp, self.emitter.index(self.assignment.scratch_offset))
        self._calls.fill(self._env, kernel, addresses, scratch)
        for phase in kernel.phases:
            function = self.builder.declare(phase.symbol, lt.VOID, [lt.PTR, lt.I64])
            self._phase(function, self.emitter.index(phase.chunks))

    def _phase(self, function: FunctionRef, chunks: IndexValue) -> None:
        f = self.f
        if chunks == 0:
            return
        if chunks == 1:
            f.call(function, [self._env, f.const(lt.I64, 0)])
            return
        address = Value(lt.PTR, function.text)
        arguments = [self._pool, address, self._env, f.as_value(chunks)]
        types = [lt.PTR, lt.PTR, lt.PTR, lt.I64]
        f.call_indirect(self._parallel, lt.VOID, types, arguments)

    def copy(self, target: Value, source: Value, size: IndexValue) -> None:
        """Emit the copy of `size` bytes; many are shared between the threads of the pool."""
        f = self.f

        def share() -> None:
            for number, value in enumerate((target, source, f.as_value(size))):
                f.store(value, f.gep(self._env, number * SLOT_BYTES), 8)
            function = self.builder.helper("copy_chunk", _copy_chunk)
            self._phase(function, f.iceildiv(size, COPIED_BYTES))

        f.if_(f.ile(size, COPIED_BYTES), lambda: f.memcpy(target, source, size), share)

    def rounds(self, instruction: Instruction) -> None:
        """Emit the rounds of a `while`: the call of its function if it has one."""
        known = self.kernels.loops.loops.get(instruction)
        if known is None:
            super().rounds(instruction)
        else:
            self._call_kernel(known.emitted, [self.slice_address(found) for found in known.slices])


_COPY_SLOTS = 3
"""Slots of the env of a copy: target, source, bytes."""


def _copy_chunk(module: ModuleBuilder) -> FunctionRef:
    """Define the function that copies a chunk of a large array.

    Of steps the runtime has it (`COPY`); machine code calls nothing of the runtime by name.
    """
    params = (("env", lt.PTR), ("chunk", lt.I64))
    f = module.function("copy_chunk", lt.VOID, params, linkage="internal")
    env, chunk = f.params
    types = (lt.PTR, lt.PTR, lt.I64)
    slots = [f.load(of, f.gep(env, n * SLOT_BYTES), 8) for n, of in enumerate(types)]
    target, source, size = slots
    first = f.imul(chunk, COPIED_BYTES)
    count = f.imin(f.isub(size, first), COPIED_BYTES)
    f.memcpy(f.gep(target, first), f.gep(source, first), count)
    f.ret()
    return f.reference


def _elements(shape: Shape) -> int | Dim:
    """Return how many elements all arrays of a shape have together."""
    total: int | Dim = 0
    for _, leaf in shape.leaves():
        total += leaf.size if leaf.is_array else 0
    return total


def _has_rows(kernel: Kernel) -> bool:
    """Whether a kernel goes through rows, which may be without elements."""
    loops = general_kernel(kernel)
    return not isinstance(loops, LoopKernel) or loops.has_loops

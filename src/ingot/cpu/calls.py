# SPDX-License-Identifier: Apache-2.0
"""How machine code of the CPU runs a kernel: env is filled, or the kernel is emitted in place."""

from __future__ import annotations

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, RuntimeSlot, Slot
from ingot.cpu.emit.loop.kernel import emit_in_place
from ingot.cpu.kernels import KernelSet
from ingot.emit.values.indices import IndexEmitter
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.host.sizes import require_bound
from ingot.llvm import types as lt
from ingot.llvm.values import Value


class KernelCalls:
    """Emits into one function what a kernel needs to run."""

    def __init__(self, emitter: IndexEmitter, runtime: Value, kernels: KernelSet) -> None:
        """Emit into the emitter's function.

        `rooms`, which may be set afterwards, are those of an `AccessEmitter`.

        Args:
            emitter: emitter of sizes.
            runtime: address of the runtime record.
            kernels: the kernels.
        """
        self._emitter = emitter
        self._runtime = runtime
        self._kernels = kernels
        self.rooms: dict[Value, tuple[int, int]] = {}

    def fill(
        self, env: Value, kernel: EmittedKernel, addresses: list[Value], scratch: Value
    ) -> None:
        """Fill the slots of a kernel's env."""
        f = self._emitter.f
        for number, value in enumerate(kernel.env(addresses, scratch, self._slot)):
            f.store(value, f.gep(env, number * SLOT_BYTES), 8)

    def _slot(self, held: Slot) -> Value:
        """Return what a slot of env holds: a number, a function's address or a symbolic size."""
        if isinstance(held, RuntimeSlot):
            return self._runtime
        if isinstance(held, CodeSlot):
            return self._address_of(held.symbol)
        size = Dim.symbol(held) if isinstance(held, str) else held
        require_bound(size, self._emitter.names, f"an op reads or writes at {size}")
        return self._emitter.f.as_value(self._emitter.index(size))

    def _address_of(self, symbol: str) -> Value:
        """Return the address of a function or of a kernel's table."""
        builder = self._emitter.f.owner
        compiled = self._kernels.compiled.values()
        # WebAssembly has functions and data in address spaces of their own.
        if builder.architecture == "wasm" and any(
            symbol in kernel.emitted.tables for kernel in compiled
        ):
            return builder.global_text(symbol, "external constant i8")
        return Value(lt.PTR, builder.declare(symbol, lt.VOID, []).text)

    def emitted_in_place(self, fusion: Instruction, addresses: list[Value]) -> bool:
        """Emit a small kernel's code here; return whether the fusion's kernel is one."""
        inlined = self._kernels.inlined.get(self._kernels.names[fusion])
        if inlined is None:
            return False
        kernel = inlined.kernel
        sizes = {name: self._emitter.names[name] for name in kernel.symbols}
        buffers = dict(enumerate(addresses))
        emitter = ValueEmitter(self._emitter.f, buffers, sizes, self._kernels.target.has_fma)
        emitter.rooms = self.rooms
        emit_in_place(emitter, kernel, inlined.schedule)
        return True

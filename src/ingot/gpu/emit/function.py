# SPDX-License-Identifier: Apache-2.0
"""The start of every GPU kernel: its parameters, shared memory, and how a thread reads and writes.

A kernel is `ptx_kernel void k(buffers..., sizes...)`: the global addresses of its buffers in the
kernel's order and of its schedule's scratch, then symbolic sizes as i64, by name; last the width
that it is launched for, if it is launched for several.

Invariant: a masked access touches no memory where its mask is false.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.emit.values.values import ValueEmitter
from ingot.gpu.machine import SHARED_ALIGNMENT, array_bytes
from ingot.gpu.schedule.strategies import Stage
from ingot.kernel.ir import Store
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type
from ingot.llvm.values import Value

GLOBAL, SHARED = lt.pointer(1), lt.pointer(3)
"""Addresses of global memory, and of a block's shared memory."""


WIDTH = "@width"
"""The name of the width that a stage is launched for."""


class ThreadValues(ValueEmitter):
    """Emits the values of one thread.

    Attributes:
        guard: where it is false the thread stores nothing (None: it stores).
    """

    guard: Value | None = None

    def _scalar_load(self, memory: Type, pointer: Value, mask: Value | None) -> Value:
        f = self.f
        if mask is None:
            return f.load(memory, pointer)
        return f.if_(mask, lambda: [f.load(memory, pointer)], otherwise=[f.zero(memory)])[0]

    def store_all(self, stores: Sequence[Store]) -> None:
        """Emit stores, under the guard if there is one."""
        if self.guard is None or not stores:
            super().store_all(stores)
            return

        def then() -> None:
            self.open_scope()
            super(ThreadValues, self).store_all(stores)
            self.close_scope()

        self.f.if_(self.guard, then)


class SharedMemory:
    """The shared memory of a kernel: arrays that all threads of a block see.

    Attributes:
        bytes: how much there is of it.
    """

    def __init__(self, module: ModuleBuilder, symbol: str) -> None:
        """Have none, in the kernel `symbol`."""
        self.module = module
        self.symbol = symbol
        self.bytes = 0
        self._count = 0

    def array(self, type: Type, count: int) -> Value:
        """Return the address of a new array of `count` uninitialized items."""
        text = (
            f"internal addrspace(3) global [{count} x {type.text}] undef, align {SHARED_ALIGNMENT}"
        )
        name = f"{self.symbol}_shared{self._count}"
        self._count += 1
        self.bytes += array_bytes(type.bytes, count)
        return self.module.global_text(name, text, SHARED)


def open_function(
    module: ModuleBuilder, symbol: str, stage: Stage, sizes: tuple[str, ...]
) -> tuple[FunctionBuilder, ThreadValues]:
    """Start a kernel; return its builder and the emitter of a thread's values."""
    count = len(stage.kernel.buffers)
    if stage.widths is not None:
        sizes = (*sizes, WIDTH)
    params = [(f"b{number}", GLOBAL) for number in range(count)]
    params += [(f"s{number}", lt.I64) for number in range(len(sizes))]
    f = module.function(
        symbol,
        lt.VOID,
        params,
        linkage="ptx_kernel",
        attrs=f'nounwind "nvvm.maxntid"="{stage.threads},1,1"',
    )
    buffers = dict(enumerate(f.params[:count]))
    names = dict(zip(sizes, f.params[count:], strict=True))
    return f, ThreadValues(f, buffers, names, fma=True)

# SPDX-License-Identifier: Apache-2.0
"""The first phase of attention with a mask of positions: are all values of a batch element finite?

`void k_finite(ptr env, i64 batch)` writes 0 to the batch element's word of scratch if they are. If
so, keys that no row sees are left out; else they are multiplied, since 0 times infinity is NaN.

Invariant: each chunk writes one word.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import Packer, Span, lane_mask
from ingot.cpu.emit.kernel_abi import open_kernel, scratch_of
from ingot.emit.values.indices import IndexValue
from ingot.kernel.attention.schedule import AttentionSchedule
from ingot.kernel.ir import AttentionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value

FLAG_BYTES = 8
"""Bytes of scratch for each batch element."""


def emit_finite_check(
    module: ModuleBuilder,
    symbol: str,
    kernel: AttentionKernel,
    schedule: AttentionSchedule,
    target: TargetSpec,
) -> None:
    """Emit the function of the phase into `module`."""
    count, lanes = len(kernel.buffers), schedule.lanes
    f, emitter, batch = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    packer = Packer(emitter, kernel.accumulate, lanes)
    wide = vector(packer.cell, lanes)
    emitter.names[kernel.batch.name] = 0 if kernel.batch.extent == 1 else batch
    width = kernel.e.known_extent
    span, whole = Span(kernel.e.name, 0, width), width // lanes * lanes

    def key(number: Value, carried: list[Value]) -> list[Value]:
        emitter.names[kernel.n.name] = number

        def part(column: IndexValue, total: Value, mask: Value | None) -> Value:
            value = packer.evaluate(kernel.values, span, column, lanes, mask)
            none = f.mul(value, f.zero(wide))
            return f.add(total, none if mask is None else f.select(mask, none, f.zero(wide)))

        found = f.loop(0, whole, lanes, carried, lambda column, held: [part(column, held[0], None)])
        if whole < width:
            found = [part(whole, found[0], lane_mask(f, width - whole, lanes))]
        return found

    keys = emitter.index(kernel.n.extent)
    (total,) = f.loop(0, keys, 1, [f.zero(wide)], key)
    differs = f.reduce("or", f.fcmp("une", total, f.zero(wide)))
    where = f.gep(scratch_of(f, count), batch, lt.I64)
    f.store(f.zext(differs, lt.I64), where, FLAG_BYTES)
    f.ret()

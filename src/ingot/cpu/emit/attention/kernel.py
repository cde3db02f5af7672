# SPDX-License-Identifier: Apache-2.0
"""Attention kernels as LLVM functions: `void k(ptr env, i64 chunk)`.

A chunk runs its units: a block of query rows of one batch element each. The queries are packed once
as the right side of the first product. For each block of keys a unit then

* multiplies them: micro-kernels write a tile of scores, one key a row, lanes along the queries;
* makes scores of the products, and their greatest so far (`softmax`);
* makes powers of the scores in place, adds them up, and corrects what earlier blocks gave by how
  far the greatest has risen;
* multiplies the powers with the values: micro-kernels add to a tile of sums.

The stores take the sums at the end. Products run in the micro-kernels that contractions have, those
of the library where it has them. Keys that a mask leaves out for all rows of a unit
(`kernel.attention.schedule`) are not multiplied.

With a mask of positions, a first phase asks whether all values of a batch element are finite.
`void k_finite(ptr env, i64 batch)` writes 0 to the batch element's word of scratch if they are. If
so, keys that no row sees are left out; else they are multiplied, since 0 times infinity is NaN.

Invariant: a unit writes its own rows of the results, a chunk of the first phase its word, and
nothing else; blocks of keys come in order, so that results are the same for every number of
threads.
"""

from __future__ import annotations

from ingot.cpu.emit.attention.tiles import TileUnitEmitter
from ingot.cpu.emit.attention.unit import FLAG_BYTES, UnitEmitter
from ingot.cpu.emit.contraction.packing import Packer, Span, lane_mask
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, for_units, open_kernel, scratch_of
from ingot.emit.values.indices import IndexValue
from ingot.hlo.dim import Dim
from ingot.kernel.attention.schedule import AttentionSchedule
from ingot.kernel.ir import AttentionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def emit_attention_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: AttentionKernel,
    schedule: AttentionSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the function of an attention kernel into `module`."""
    count = len(kernel.buffers)
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    unit_emitter = TileUnitEmitter if schedule.has_tiles else UnitEmitter
    unit = unit_emitter(emitter, kernel, schedule, target)
    for_units(f, chunk, schedule.grain, emitter.index(schedule.units), unit.emit)
    f.ret()
    phases = [Phase(symbol, schedule.chunks)]
    scratch: int | Dim = 0
    if schedule.bounds:
        emit_finite_check(module, f"{symbol}_finite", kernel, schedule, target)
        phases.insert(0, Phase(f"{symbol}_finite", kernel.batch.extent))
        scratch = kernel.batch.extent * FLAG_BYTES
    return EmittedKernel(
        tuple(phases),
        count,
        kernel.symbols,
        scratch_bytes=scratch,
        templates=tuple(unit.shared.values()),
    )


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

# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions: a chunk runs its units, a unit runs the passes.

The schedule's strategy selects the emitter of the body (`EMITTERS`); how kernels are called is in
`kernel_abi`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.loop.gathered_rows import GatheredRowsEmitter, RowNestEmitter
from ingot.cpu.emit.loop.pieces import PieceEmitter
from ingot.cpu.emit.loop.rows import JoinedRowsEmitter, TransposedRowsEmitter
from ingot.cpu.emit.loop.split import emit_split_kernel
from ingot.cpu.emit.loop.staged import StagedEmitter
from ingot.cpu.emit.loop.tile import TiledLoopEmitter
from ingot.cpu.emit.template import template_of
from ingot.emit.loop.body import LoopEmitter
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import Effort, InLanes, LoopSchedule, LoopStrategy
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.kernel.schedule.row_folds import JoinedRows, TransposedRows
from ingot.kernel.schedule.serial import StagedUpdates
from ingot.kernel.schedule.short_rows import GatheredRows, RowNest
from ingot.kernel.schedule.splits import SplitReduction
from ingot.kernel.schedule.tiles import SquareTiles
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.values import Value

EMITTERS: Mapping[type[LoopStrategy], type[LoopEmitter]] = {
    InLanes: LoopEmitter,
    Pieces: PieceEmitter,
    SquareTiles: TiledLoopEmitter,
    StagedUpdates: StagedEmitter,
    JoinedRows: JoinedRowsEmitter,
    GatheredRows: GatheredRowsEmitter,
    RowNest: RowNestEmitter,
    TransposedRows: TransposedRowsEmitter,
}
"""The emitter of a kernel's units, by strategy. A split reduction has two phases of its own."""


def emit_loop_kernel(
    module: ModuleBuilder, symbol: str, kernel: LoopKernel, schedule: LoopSchedule, fma: bool
) -> EmittedKernel:
    """Emit the functions of a loop kernel into `module`."""
    count = len(kernel.buffers)
    if isinstance(schedule.strategy, SplitReduction):
        return emit_split_kernel(module, symbol, kernel, schedule, fma)
    is_simple = schedule.effort is Effort.MEMORY_BOUND
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, fma, is_simple=is_simple)
    body = _emit_body(emitter, chunk, kernel, schedule)
    f.ret()
    phases = (Phase(symbol, schedule.chunks),)
    templates = tuple(map(template_of, body.shared))
    return EmittedKernel(phases, count, kernel.symbols, templates=templates)


def emit_in_place(emitter: ValueEmitter, kernel: LoopKernel, schedule: LoopSchedule) -> None:
    """Emit a loop kernel of one chunk where the emitter's function stands.

    A kernel over no points has no chunk, and is nothing.
    """
    if schedule.chunks == 0:
        return
    assert schedule.chunks == 1, "small kernels are one chunk"
    assert not isinstance(schedule.strategy, SplitReduction), "small kernels have no parts"
    body = _emit_body(emitter, emitter.f.const(lt.I64, 0), kernel, schedule)
    assert not body.shared, "small kernels call no function of the library"


def _emit_body(
    emitter: ValueEmitter, chunk: Value, kernel: LoopKernel, schedule: LoopSchedule
) -> LoopEmitter:
    """Emit the units of a chunk."""
    f = emitter.f
    for number, buffer in enumerate(kernel.local_buffers, len(kernel.buffers)):
        assert isinstance(buffer.size, int), "local buffers have static lengths"
        emitter.buffers[number] = f.alloca(memory_type(buffer.dtype), buffer.size, LINE_BYTES)
    emitter.large_buffers = schedule.large_buffers
    emitter.keeps_order = schedule.effort is Effort.LATENCY_BOUND
    body = EMITTERS[type(schedule.strategy)](emitter, kernel, schedule)
    units = emitter.index(schedule.units)
    if units == 1:
        # Its axes' bounds are numbers then, and loops of one round are none.
        body.unit(0, body.passes)
    else:
        grain = emitter.index(schedule.grain)
        first = 0 if schedule.chunks == 1 else f.imul(chunk, grain)
        last = units if schedule.chunks == 1 else f.imin(f.iadd(first, grain), units)
        body.units(first, last, body.passes)
    return body

"""Loop kernels as LLVM functions: a chunk runs its units, a unit runs the passes.

The body is `loop_body`'s, in square tiles `tile`'s, in pieces `pieces`', of rows folded
together `rows`', of updates in order `staged`'s; reductions in parts are `split`'s. How kernels are
called is in `kernel_abi`.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.loop_body import LoopEmitter
from ingot.cpu.emit.pieces import PieceEmitter
from ingot.cpu.emit.rows import RowsEmitter
from ingot.cpu.emit.split import emit_split_kernel
from ingot.cpu.emit.staged import StagedEmitter
from ingot.cpu.emit.tile import TiledLoopEmitter
from ingot.cpu.emit.types import memory_type
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule import LoopSchedule
from ingot.llvm.builder import ModuleBuilder


def emit_loop_kernel(
    module: ModuleBuilder, symbol: str, kernel: LoopKernel, schedule: LoopSchedule, fma: bool
) -> EmittedKernel:
    """Emit the functions of a loop kernel into `module`."""
    count = len(kernel.buffers)
    if schedule.split is not None:
        return emit_split_kernel(module, symbol, kernel, schedule, schedule.split, fma)
    f, emitter, chunk = open_kernel(
        module, symbol, count, kernel.symbols, fma, is_cold=schedule.waits
    )
    for number, buffer in enumerate(kernel.kept, count):
        assert isinstance(buffer.size, int), "kept rows have static lengths"
        emitter.buffers[number] = f.alloca(memory_type(buffer.dtype), buffer.size, 64)
    emitter.far = schedule.far
    chosen = LoopEmitter if schedule.tile is None else TiledLoopEmitter
    chosen = PieceEmitter if schedule.cuts else chosen
    chosen = RowsEmitter if schedule.rows is not None else chosen
    chosen = StagedEmitter if schedule.staged else chosen
    body = chosen(f, emitter, kernel, schedule)
    units = emitter.index(schedule.units)
    if units == 1:
        # Its axes' bounds are numbers then, and loops of one round are none.
        body.unit(0, body.passes)
    else:
        grain = emitter.index(schedule.grain)
        first = 0 if schedule.chunks == 1 else f.imul(chunk, grain)
        last = units if schedule.chunks == 1 else f.imin(f.iadd(first, grain), units)
        f.loop(first, last, 1, [], lambda unit, _: body.unit(unit, body.passes))
    f.ret()
    phases = (Phase(symbol, schedule.chunks),)
    return EmittedKernel(
        phases, count, kernel.symbols, micro_kernels=body.shared, is_quick=schedule.waits
    )

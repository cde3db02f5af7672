# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions: a chunk runs its units, a unit runs the passes.

The schedule's strategy selects the emitter of the body (`EMITTERS`); how kernels are called is in
`kernel_abi`.

A kernel in pieces has loops of its own for each part of the grid where masks are known: the
schedule holds a kernel for each (`kernel.schedule.piece_loops`). A unit asks once in which band of
the outer axes it lies; there its block of the vector axis is a loop per piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.loop.gathered_rows import GatheredRowsEmitter, RowNestEmitter
from ingot.cpu.emit.loop.rows import JoinedRowsEmitter, TransposedRowsEmitter
from ingot.cpu.emit.loop.split import emit_split_kernel
from ingot.cpu.emit.loop.staged import StagedEmitter
from ingot.cpu.emit.loop.tile import TiledLoopEmitter
from ingot.cpu.emit.template import template_of
from ingot.emit.loop.body import LoopEmitter, Strip, copy_runs
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import (
    Effort,
    GatheredRows,
    InLanes,
    JoinedRows,
    LoopSchedule,
    Pieces,
    RowNest,
    SplitReduction,
    SquareTiles,
    StagedUpdates,
    Strategy,
    TransposedRows,
)
from ingot.kernel.schedule.piece_loops import Band, PieceLoop
from ingot.kernel.schedule.pieces import Range
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.values import Value


class PieceEmitter(LoopEmitter):
    """Emits a kernel whose schedule cuts axes into pieces."""

    block: tuple[IndexValue, IndexValue]
    kernel: LoopKernel

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        # Loops along the axis bind its name, which was the number of the block.
        extent, block = axis.extent, self.schedule.block
        if isinstance(extent, int) and isinstance(block, int) and extent <= block:
            self.block = 0, extent
        else:
            self.block = self._block_bounds(axis)
        strategy = self._strategy(Pieces)
        outer = [cut.axis for cut in strategy.cuts[:-1]]
        self._bands(list(strategy.bands), outer, body)

    def _bands(self, bands: list[Band], outer: list[Axis], body: Callable[[], None]) -> None:
        """Branch over the bands by where the unit lies along each of the outer axes."""
        depth = len(bands[0].ranges) - len(outer)
        if not outer:
            (band,) = bands
            self._pieces(band, body)
            return
        axis, *inner = outer
        position = self.emitter.names[axis.name]
        groups = [(r, list(held)) for r, held in groupby(bands, lambda band: band.ranges[depth])]

        def branch(left: list[tuple[Range, list[Band]]]) -> None:
            ((first, last), own), *others = left

            def here() -> None:
                self.emitter.open_scope()
                start = self.emitter.index(first)
                self.emitter.names[axis.name] = self.f.isub(position, start)
                self._bands(own, inner, body)
                self.emitter.names[axis.name] = position
                self.emitter.close_scope()

            if others:
                end = self.emitter.index(last)
                self.f.if_(self.f.ile(position, end), here, lambda: branch(others))
            else:
                here()

        branch(groups)

    def _pieces(self, band: Band, body: Callable[[], None]) -> None:
        """Emit a loop for each piece of the vector axis in the current block."""
        whole, axis = self.kernel, self._strategy(Pieces).cuts[-1].axis
        for piece in band.loops:
            self.kernel = piece.kernel
            self._piece(axis, piece, body)
        self.kernel = whole

    def _start(self, bound: IndexValue, piece: PieceLoop) -> IndexValue:
        """Return where a bound of the block lies in a piece: at a whole number of blocks of lanes.

        One unit ends where the next one begins.
        """
        f, lanes = self.f, piece.lanes
        behind = f.imax(f.isub(bound, self.emitter.index(piece.first)), 0)
        rounded = f.imul(f.idiv(f.iadd(behind, lanes - 1), lanes), lanes)
        return f.imin(rounded, self.emitter.index(piece.length))

    def _piece(self, axis: Axis, piece: PieceLoop, body: Callable[[], None]) -> None:
        """Emit the loop of a piece, whose positions are counted from its beginning."""
        passes, lanes = piece.kernel.passes, piece.lanes
        start, end = (self._start(bound, piece) for bound in self.block)
        if piece.copies:
            copy_runs(self.emitter, passes, axis.name, (start, end))
            return
        self.emitter.open_scope()
        self._prepare(passes, frozenset((axis.name,)))
        strip = Strip(axis.name, start, end, lanes, aligned=lanes)
        self.vectorize(strip, [], carrying_nothing(body), piece.gathers)
        self.emitter.close_scope()


EMITTERS: Mapping[type[Strategy], type[LoopEmitter]] = {
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
    _emit_body(emitter, emitter.f.const(lt.I64, 0), kernel, schedule)


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

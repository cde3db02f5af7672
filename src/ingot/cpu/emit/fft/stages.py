"""FFT kernels: one function per stage of the plan, its blocks of sequences shared out to threads.

Where an FFT kernel becomes LLVM IR. A block is as many sequences as a vector has lanes; it is
brought in, transformed between two tiles of scratch, and stored, with whatever the stage does on
the way (twiddle factors, scaling, the halves of a real transform).

Invariant: a sequence's result does not depend on which block or thread works on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.fft import tables as tb
from ingot.cpu.emit.fft.butterflies import Complex, ComplexMath
from ingot.cpu.emit.fft.fold import extend_tile, pack_tile, unpack_tile
from ingot.cpu.emit.fft.fold_stage import emit_fold_stage
from ingot.cpu.emit.fft.sides import Columns, Rows
from ingot.cpu.emit.fft.tables import Tables
from ingot.cpu.emit.fft.tile import Loader, Storer, Tile, TileTransform, tile_length
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.values import IndexValue, ValueEmitter
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import C64
from ingot.kernel.fft import Area, FftPlan, Place, Stage, plan_fft
from ingot.kernel.ir import FftKernel
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, F64, Type, vector
from ingot.llvm.values import Value

MAX_CHUNKS = 16
"""Chunks of a stage at most: each has tiles of its own."""

CHUNK_WORK = 60_000
"""Floating-point operations of a chunk at least: some ten microseconds."""

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the second scratch area and the chunks' tiles begin, in bytes; the first is at 0."""

    second: int | Dim
    tiles: int | Dim
    tile_bytes: int


def emit_fft_kernel(
    module: ModuleBuilder, symbol: str, kernel: FftKernel, target: TargetSpec
) -> EmittedKernel:
    """Emit the functions of an FFT kernel into `module`."""
    plan = plan_fft(kernel)
    scalar = F32 if kernel.element is C64 else F64
    widest = target.vector_bits // scalar.bits
    layout = _layout(plan, scalar, widest)
    tables = Tables(module, scalar)
    phases: list[Phase] = []
    chunks: int | Dim = 0
    for number, stage in enumerate(plan.stages):
        name = f"{symbol}_{number}"
        f, emitter, scratch, chunk = open_kernel(module, name, 2, kernel.symbols, target.has_fma)
        areas = Areas(f, emitter, scratch, layout)
        if isinstance(stage, Stage):
            math = ComplexMath(f, vector(scalar, _lanes(stage, widest)), target.has_fma)
            stage_chunks = _StageEmitter(math, areas, tables, stage, kernel.inverse).emit(chunk)
        else:
            math = ComplexMath(f, vector(scalar, widest), target.has_fma)
            addresses = areas.base(stage.source), areas.base(stage.target)
            stage_chunks = emit_fold_stage(math, emitter, tables, stage, addresses, chunk)
        f.ret()
        phases.append(Phase(name, stage_chunks))
        chunks = dim.maximum(chunks, stage_chunks)
    size = layout.tiles + chunks * (2 * layout.tile_bytes)
    return EmittedKernel(tuple(phases), 2, kernel.symbols, size, tables=tables.data)


def _lanes(stage: Stage, widest: int) -> int:
    """Return the lanes of a stage's vectors: a power of two, no more than there is use for."""
    if not isinstance(stage.lanes, int):
        return widest
    return min(widest, 1 << (stage.lanes - 1).bit_length())


def _layout(plan: FftPlan, scalar: Type, widest: int) -> Layout:
    first = _aligned(plan.first * (2 * scalar.bytes))
    second = _aligned(plan.second * (2 * scalar.bytes))
    tile = 0
    for stage in plan.stages:
        if isinstance(stage, Stage):
            # Half a spectrum has one element more than the transform that it is packed for.
            elements = max(tile_length(stage.length), stage.length + 1)
            size = elements * 2 * scalar.bytes * _lanes(stage, widest)
            tile = max(tile, -(-size // _ALIGNMENT) * _ALIGNMENT)
    return Layout(first, first + second, tile)


def _aligned(size: int | Dim) -> int | Dim:
    return dim.floordiv(size + (_ALIGNMENT - 1), _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True, slots=True)
class Areas:
    """Addresses of the memory that stages read and write."""

    f: FunctionBuilder
    emitter: ValueEmitter
    scratch: Value
    layout: Layout

    def base(self, area: Area) -> Value:
        """Return where an area begins."""
        if area == "operand":
            return self.emitter.buffers[0]
        if area == "result":
            return self.emitter.buffers[1]
        return self.scratch if area == "first" else self._at(self.layout.second)

    def tiles(self, math: ComplexMath, chunk: Value) -> tuple[Tile, Tile]:
        """Return the tiles of a chunk."""
        size = self.layout.tile_bytes
        here = self.f.gep(self._at(self.layout.tiles), self.f.imul(chunk, 2 * size))
        return Tile(math, here), Tile(math, self.f.gep(here, size))

    def _at(self, offset: int | Dim) -> Value:
        return self.f.gep(self.scratch, self.emitter.index(offset))


class _StageEmitter:
    """Emits the function of one stage."""

    def __init__(
        self, math: ComplexMath, areas: Areas, tables: Tables, stage: Stage, inverse: bool
    ) -> None:
        self.m = math
        self.f = math.f
        self.areas = areas
        self.stage = stage
        self.tables = tables
        self.inverse = int(inverse)
        self.transform = TileTransform(math, tables, stage.length, inverse)
        self.lanes: IndexValue = areas.emitter.index(stage.lanes)

    def emit(self, chunk: Value) -> int | Dim:
        """Emit the loop over a chunk's blocks; return the number of chunks."""
        f, stage, width = self.f, self.stage, self.m.type.lanes
        blocks = dim.floordiv(stage.lanes + (width - 1), width)
        total = stage.outer * blocks
        work = 5 * stage.length * stage.length.bit_length() * width
        least = -(-CHUNK_WORK // work)
        grain = dim.maximum(dim.floordiv(total + (MAX_CHUNKS - 1), MAX_CHUNKS), least)
        index = self.areas.emitter.index
        tiles = self.areas.tiles(self.m, chunk)
        start = f.imul(chunk, index(grain))
        stop = f.imin(f.iadd(start, index(grain)), index(total))

        def block(number: Value, _: list[Value]) -> None:
            outer = f.idiv(number, index(blocks))
            lane = f.imul(f.irem(number, index(blocks)), width)
            self._block(outer, lane, tiles)

        f.loop(start, stop, 1, [], block)
        return dim.floordiv(total + (grain - 1), grain)

    def _block(self, outer: IndexValue, lane: IndexValue, tiles: tuple[Tile, Tile]) -> None:
        stage = self.stage
        free, full = tiles
        source = self._side(stage.source, outer, lane, real=stage.load == "real")
        target = self._side(stage.target, outer, lane, real=stage.store == "real")
        load: Loader
        if isinstance(source, Columns):
            load = source.load
        else:
            load = self._bring_in(source, full, free).load
        if load == free.load:
            free, full = full, free
        last = self.transform.target((free, full))
        put = target.store if isinstance(target, Columns) else last.store
        self.transform.run(load, self._finished(put, lane), (free, full))
        if isinstance(target, Rows):
            self._take_out(target, last, full if last is free else free)

    def _side(
        self, place: Place, outer: IndexValue, lane: IndexValue, *, real: bool
    ) -> Columns | Rows:
        f, m, scalar = self.f, self.m, self.m.type.element
        bytes_each = scalar.bytes if real else 2 * scalar.bytes
        base = f.gep(self.areas.base(place.area), f.imul(outer, place.outer * bytes_each))
        if place.lane == 1 and place.element != 1:
            return Columns(
                m, f.gep(base, f.imul(lane, bytes_each)), place.element, self._mask(lane)
            )
        final = f.isub(self.lanes, 1)
        numbers = [f.imin(f.iadd(lane, n), final) for n in range(m.type.lanes)]
        starts = [f.gep(base, f.imul(n, place.lane * bytes_each)) for n in numbers]
        return Rows(m, tuple(starts))

    def _mask(self, lane: IndexValue) -> Value | None:
        """Return which parts of a vector of pairs exist, or None if all always do."""
        f, width = self.f, self.m.type.lanes
        if isinstance(self.lanes, int) and self.lanes % width == 0:
            return None
        left = f.as_value(f.imul(f.isub(self.lanes, lane), 2))
        numbers = f.const(vector(left.type, 2 * width), range(2 * width))
        return f.icmp("slt", numbers, f.splat(left, 2 * width))

    def _bring_in(self, source: Rows, tile: Tile, other: Tile) -> Tile:
        """Load a block; return the tile that holds it."""
        stage, length = self.stage, self.stage.length
        if stage.load == "real":
            source.load_real(tile, length)
        elif stage.load == "half":
            source.load(tile, length // 2 + 1)
            extend_tile(self.m, length, tile)
        elif stage.load == "packed":
            source.load(tile, length + 1)
            pack_tile(self.m, length, self._fold_twiddle, tile, other)
            return other
        else:
            source.load(tile, length)
        return tile

    def _take_out(self, target: Rows, tile: Tile, other: Tile) -> None:
        stage, length = self.stage, self.stage.length
        if stage.store == "real":
            target.store_real(tile, length)
        elif stage.store == "half":
            target.store(tile, length // 2 + 1)
        elif stage.store == "unpacked":
            unpack_tile(self.m, length, self._fold_twiddle, tile, other)
            target.store(other, length + 1)
        else:
            target.store(tile, length)

    def _fold_twiddle(self, index: IndexValue) -> Complex:
        table = self.tables.add(tb.fold_twiddles, self.stage.length, self.inverse)
        return self.transform.constant(table, index)

    def _finished(self, put: Storer, lane: IndexValue) -> Storer:
        """Return `put` with what the stage does to every result before."""
        stage, m = self.stage, self.m
        if not stage.twiddle:
            return lambda index, value: put(index, m.scale(value, stage.scale))
        columns = stage.twiddle // stage.length
        table = self.tables.add(tb.grid_twiddles, stage.length, columns, self.inverse)
        base = self.f.gep(table, self.f.imul(lane, 2 * m.type.element.bytes))
        factors = Columns(m, base, columns, self._mask(lane))
        return lambda index, value: put(index, m.mul(value, factors.load(index)))

"""The stage that takes half-length transforms apart, or packs for them, between two areas.

Used where a real sequence is too long for a tile. Vectors hold neighbouring elements of one
sequence; the mirrored ones are read backwards.
"""

from __future__ import annotations

from ingot.cpu.emit.fft import tables as tb
from ingot.cpu.emit.fft.butterflies import Complex, ComplexMath
from ingot.cpu.emit.fft.fold import packed, unpacked
from ingot.cpu.emit.fft.sides import interleave, separate
from ingot.cpu.emit.fft.tables import Tables
from ingot.cpu.emit.values import IndexValue, ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.fft import FoldStage
from ingot.llvm.types import vector
from ingot.llvm.values import Value

BLOCK = 4096
"""Elements of a chunk."""


def emit_fold_stage(
    m: ComplexMath,
    emitter: ValueEmitter,
    tables: Tables,
    stage: FoldStage,
    addresses: tuple[Value, Value],
    chunk: Value,
) -> int | Dim:
    """Emit the work of one chunk; return the number of chunks."""
    f, half = m.f, stage.length
    blocks = -(-half // BLOCK)
    outer, block = f.idiv(chunk, blocks), f.irem(chunk, blocks)
    source, target = addresses
    pair = 2 * m.type.element.bytes
    given, made = (half + 1, half) if stage.packs else (half, half + 1)
    work = _Fold(
        m,
        stage,
        f.gep(source, f.imul(outer, given * pair)),
        f.gep(target, f.imul(outer, made * pair)),
        tables.add(tb.fold_twiddles, half, int(stage.packs)),
    )
    start = f.imul(block, BLOCK)
    stop = f.imin(f.iadd(start, BLOCK), half)
    f.if_(f.as_condition(f.ieq(block, 0)), work.ends)
    work.middle(f.imax(start, 1), stop)
    return stage.outer * blocks


class _Fold:
    """Emits the work on one sequence."""

    def __init__(
        self, m: ComplexMath, stage: FoldStage, source: Value, target: Value, table: Value
    ) -> None:
        self.m = m
        self.stage = stage
        self.source, self.target, self.table = source, target, table

    def ends(self) -> None:
        """Emit elements 0 (and h), which have no mirrored partner of their own."""
        single, half = self._scalar(), self.stage.length
        f = single.f
        if not self.stage.packs:
            first = self._load(single, self.source, 0)
            for place in (0, half):
                twiddle = self._load(single, self.table, place)
                self._store(single, place, unpacked(single, first, first, twiddle))
            return
        near, far = (self._load(single, self.source, place) for place in (0, half))
        near, far = (Complex(value.re, f.zero(single.type)) for value in (near, far))
        twiddle = self._load(single, self.table, 0)
        self._store(single, 0, packed(single, near, far, twiddle))

    def middle(self, start: IndexValue, stop: IndexValue) -> None:
        """Emit elements [start, stop): whole vectors, then the rest."""
        f, lanes = self.m.f, self.m.type.lanes
        count = f.imax(f.isub(stop, start), 0)
        whole = f.iadd(start, f.imul(f.idiv(count, lanes), lanes))
        f.loop(start, whole, lanes, [], lambda k, _: self._at(self.m, k))
        f.loop(whole, stop, 1, [], lambda k, _: self._at(self._scalar(), k))

    def _scalar(self) -> ComplexMath:
        return ComplexMath(self.m.f, self.m.type.element, self.m.fma)

    def _at(self, m: ComplexMath, k: Value) -> None:
        f, lanes = m.f, m.type.lanes
        mirror = f.isub(self.stage.length, f.iadd(k, lanes - 1))
        near = self._load(m, self.source, k)
        far = self._load(m, self.source, mirror)
        if lanes > 1:
            back = range(lanes - 1, -1, -1)
            far = Complex(f.shuffle(far.re, far.re, back), f.shuffle(far.im, far.im, back))
        fold = packed if self.stage.packs else unpacked
        self._store(m, k, fold(m, near, far, self._load(m, self.table, k)))

    def _load(self, m: ComplexMath, base: Value, index: IndexValue) -> Complex:
        scalar = m.type.element
        at = m.f.gep(base, m.f.imul(index, 2 * scalar.bytes))
        return separate(m, [m.f.load(vector(scalar, 2 * m.type.lanes), at)])

    def _store(self, m: ComplexMath, index: IndexValue, value: Complex) -> None:
        at = m.f.gep(self.target, m.f.imul(index, 2 * m.type.element.bytes))
        m.f.store(interleave(m, value), at)

# SPDX-License-Identifier: Apache-2.0
"""Taking half-length transforms apart, or packing them, between two areas of memory.

Used where a real sequence is not brought into a tile. Vectors hold neighbouring elements of one
sequence; the mirrored ones are read backwards. For long sequences this is a phase of its own, in
which root w^k is the product of element k // `FINE` of the table `high` and k % `FINE` of `low`
(which goes on for a vector beyond `FINE`); for sequences that fit a chunk's memory it is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.cpu.emit.fft.sides import interleave, separate
from ingot.emit.fft.butterflies import Complex, ComplexMath
from ingot.emit.fft.fold import packed, unpacked
from ingot.emit.values.indices import IndexValue
from ingot.kernel.fft.build import FINE, FOLD_BLOCK
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record


def emit_fold(
    m: ComplexMath,
    packs: bool,
    given: dict[str, Value],
    areas: tuple[Value, Value],
    chunk: Value,
) -> None:
    """Emit the work of one chunk, which is `FOLD_BLOCK` elements of one sequence."""
    f = m.f
    half, blocks = given["half"], given["blocks"]
    outer, block = f.idiv(chunk, blocks), f.irem(chunk, blocks)
    pair = 2 * m.type.element.bytes
    more = f.iadd(half, 1)
    lengths = (more, half) if packs else (half, more)
    source, target = (
        f.gep(area, f.imul(f.imul(outer, length), pair))
        for area, length in zip(areas, lengths, strict=True)
    )

    def twiddle(m: ComplexMath, k: IndexValue) -> Complex:
        low = _load(m, given["low"], f.irem(k, FINE))
        return m.mul(low, m.constant(given["high"], f.idiv(k, FINE)))

    work = _Fold(m, packs, half, source, target, twiddle)
    start = f.imul(block, FOLD_BLOCK)
    stop = f.imin(f.iadd(start, FOLD_BLOCK), half)
    f.if_(f.as_condition(f.ieq(block, 0)), work.ends)
    work.middle(f.imax(start, 1), stop)


def emit_sequence_fold(
    m: ComplexMath, packs: bool, given: Mapping[str, Value], ends: tuple[Value, Value]
) -> None:
    """Emit the work on one sequence, from `ends[0]` to `ends[1]`, with a table of all roots."""
    half, table = given["count"], given["table"]
    work = _Fold(m, packs, half, *ends, lambda m, k: _load(m, table, k))
    work.ends()
    work.middle(1, half)


def _load(m: ComplexMath, base: Value, index: IndexValue) -> Complex:
    """Return neighbouring elements, in lanes."""
    scalar = m.type.element
    at = m.f.gep(base, m.f.imul(index, 2 * scalar.bytes))
    return separate(m, [m.f.load(vector(scalar, 2 * m.type.lanes), at)])


@record
class _Fold:
    """Emits the work on one sequence; `twiddle` returns roots from an index on, in lanes."""

    m: ComplexMath
    packs: bool
    half: Value
    source: Value
    target: Value
    twiddle: Callable[[ComplexMath, IndexValue], Complex]

    def ends(self) -> None:
        """Emit elements 0 (and h), which have no mirrored partner of their own."""
        single, half = self._scalar(), self.half
        f = single.f
        if not self.packs:
            first = _load(single, self.source, 0)
            for index in (0, half):
                twiddle = self.twiddle(single, index)
                self._store(single, index, unpacked(single, first, first, twiddle))
            return
        first, last = (_load(single, self.source, index) for index in (0, half))
        first, last = (Complex(value.re, f.zero(single.type)) for value in (first, last))
        self._store(single, 0, packed(single, first, last, self.twiddle(single, 0)))

    def middle(self, start: IndexValue, stop: IndexValue) -> None:
        """Emit elements [start, stop): whole vectors, then the rest."""
        f, lanes = self.m.f, self.m.type.lanes
        count = f.imax(f.isub(stop, start), 0)
        whole = f.iadd(start, f.imul(f.idiv(count, lanes), lanes))
        f.for_range(whole, lambda k: self._at(self.m, k), start=start, step=lanes)
        f.for_range(stop, lambda k: self._at(self._scalar(), k), start=whole)

    def _scalar(self) -> ComplexMath:
        return ComplexMath(self.m.f, self.m.type.element, self.m.fma)

    def _at(self, m: ComplexMath, k: Value) -> None:
        f, lanes = m.f, m.type.lanes
        mirror = f.isub(self.half, f.iadd(k, lanes - 1))
        element = _load(m, self.source, k)
        mirrored = _load(m, self.source, mirror)
        if lanes > 1:
            back = range(lanes - 1, -1, -1)
            re, im = mirrored
            mirrored = Complex(f.shuffle(re, re, back), f.shuffle(im, im, back))
        fold = packed if self.packs else unpacked
        self._store(m, k, fold(m, element, mirrored, self.twiddle(m, k)))

    def _store(self, m: ComplexMath, index: IndexValue, value: Complex) -> None:
        at = m.f.gep(self.target, m.f.imul(index, 2 * m.type.element.bytes))
        m.f.store(interleave(m, value), at)

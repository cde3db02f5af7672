# SPDX-License-Identifier: Apache-2.0
"""Real transforms of even length: half-length transforms are taken apart, or packed.

In a tile a step does it (`unpack_tile`, `pack_tile`). Between two areas of memory it is done where
a real sequence is not brought into a tile. Vectors hold neighbouring elements of one sequence; the
mirrored ones are read backwards. For long sequences this is a phase of its own, in which root w^k
is the product of element k // `FINE` of the table `high` and k % `FINE` of `low` (which goes on for
a vector beyond `FINE`); for sequences that fit a chunk's memory it is a step. The formulas are
those of `emit.fft.butterflies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from ingot.cpu.emit.fft.sides import Rows, Tile, interleave, separate
from ingot.cpu.emit.fft.stages import MAX_STAGES, Env, area
from ingot.emit.fft.butterflies import Complex, ComplexMath, halves, packed, unpacked
from ingot.emit.values.indices import IndexValue
from ingot.kernel.fft.build import FINE, FOLD_BLOCK
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, exported_for, native
from ingot.native.module import Translation
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record


class Fold(Struct, is_constant=True):
    """Numbers of a fold that is a phase.

    Where its areas lie, as in `stages.Stage`; `half` elements of a transform, `half` + 1 of a
    spectrum; blocks of `FOLD_BLOCK` elements of a sequence; the tables of roots.
    """

    source_slot: i64
    source_offset: i64
    target_slot: i64
    target_offset: i64
    half: i64
    blocks: i64
    low: Pointer
    high: Pointer


@record
class Folds(Known):
    """The properties of folds that are phases: their vectors, whether they pack, and FMA."""

    type: Type
    packs: bool
    has_fma: bool

    @property
    def pair(self) -> int:
        """Bytes of an element."""
        return 2 * self.type.element.bytes


@native
def fold_chunk(of: Folds, env: Env, chunk: i64, number: i64) -> None:
    """Fold a chunk, which is a block of one sequence, in phase `number`."""
    fold = Fold.at(env + env.phases[number])
    outer = chunk // fold.blocks
    source = area(env, fold.source_slot, fold.source_offset)
    target = area(env, fold.target_slot, fold.target_offset)
    transform = outer * fold.half * of.pair
    spectrum = outer * (fold.half + 1) * of.pair
    if of.packs:
        fold_block(of, fold, source + spectrum, target + transform, chunk % fold.blocks)
    else:
        fold_block(of, fold, source + transform, target + spectrum, chunk % fold.blocks)


@Vectors[[Folds, Fold, Pointer, Pointer, i64], None]
def fold_block(f: FunctionBuilder, of: Folds, fold: Value, *given: Value) -> None:
    """Fold block number `block` of a sequence: `FOLD_BLOCK` elements, or the rest.

    `source` and `target` are where the sequence begins.
    """
    source, target, block = given
    m = ComplexMath(f, of.type, of.has_fma)
    half, low, high = (Fold.c_layout.load(f, fold, name) for name in ("half", "low", "high"))

    def twiddle(m: ComplexMath, k: IndexValue) -> Complex:
        return m.mul(_load(m, low, f.irem(k, FINE)), m.constant(high, f.idiv(k, FINE)))

    work = _Fold(m, of.packs, half, source, target, twiddle)
    start = f.imul(block, FOLD_BLOCK)
    f.if_(f.as_condition(f.ieq(block, 0)), work.ends)
    work.middle(f.imax(start, 1), f.imin(f.iadd(start, FOLD_BLOCK), half))


def fold_symbol(name: str, packs: bool, number: int) -> str:
    """Return the driver of a fold that is phase `number`; `name` is the part's."""
    return f"{name}_{'pack' if packs else 'unpack'}_{number}"


def _driver(number: int) -> Callable[[Folds, Env, i64], None]:
    @native
    def driver(of: Folds, env: Env, chunk: i64) -> None:
        fold_chunk(of, env, chunk, number)

    return driver


def emit_folds(module: ModuleBuilder, name: str, type: Type, fma: bool) -> None:
    """Emit the drivers of folds of both directions, one for each number of a phase.

    Args:
        module: where to.
        name: the start of their symbols.
        type: the vectors of real, and of imaginary parts: a lane for each of some neighbours.
        fma: whether the target fuses multiplication and addition.
    """
    translation = Translation(module)
    for packs, number in product((False, True), range(MAX_STAGES)):
        of = Folds(type, packs, fma)
        translation.add(exported_for(fold_symbol(name, packs, number), _driver(number), of))


def emit_sequence_fold(
    m: ComplexMath, packs: bool, given: Mapping[str, Value], ends: tuple[Value, Value]
) -> None:
    """Emit the work on one sequence, as a step of `given["count"]` elements of a transform.

    `ends`: where it begins in the source and in the target; `given["table"]` has all roots.
    """
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


def unpack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the `half` + 1 elements of the spectrum of a real signal to `target`.

    Args:
        m: emits complex arithmetic.
        half: elements of `source`, the transform of half the length.
        table: address of the twiddles, as `fold_twiddles` makes them.
        source: the transform Z.
        target: where the spectrum X is written; it does not overlap `source`.
    """
    f = m.f

    def at(k: IndexValue, index: IndexValue, mirror: IndexValue) -> None:
        twiddle = m.constant(table, k)
        target.store(k, unpacked(m, source.load(index), source.load(mirror), twiddle))

    at(0, 0, 0)
    at(half, 0, 0)
    f.for_range(half, lambda k: at(k, k, f.isub(half, k)), start=1)


def unpack_rows(
    m: ComplexMath, given: Mapping[str, Value], source: Tile, target: Rows, scratch: Tile
) -> None:
    """Write the `count` + 1 elements of the spectrum of a real signal to rows, from both ends on.

    Blocks of the two ends overlap in the middle, where they write the same numbers, but for the
    signs of zeros: those of the first one stay.

    Args:
        m: emits complex arithmetic.
        given: `count` and `table`, as in `unpack_tile`; `count` is at least two blocks.
        source: the transform Z.
        target: where the spectrum X is written.
        scratch: memory for two blocks.
    """
    f, half, block = m.f, given["count"], target.block

    def pair(start: Value, e: Value) -> None:
        k = f.add(start, e)
        is_first = f.icmp("eq", k, f.const(lt.I64, 0))
        mirror = f.select(is_first, k, f.sub(half, k))
        even, odd = halves(m, source.load(k), source.load(mirror), m.constant(given["table"], k))
        scratch.store(e, m.add(even, odd))
        # 0 - 0 is +0, and so the last element's imaginary part, as that of the first.
        ending = Complex(f.sub(even.re, odd.re), f.add(odd.im, f.sub(f.zero(m.type), even.im)))
        scratch.store(f.isub(2 * block - 1, e), ending)

    def both(start: Value) -> None:
        f.for_range(f.const(lt.I64, block), lambda e: pair(start, e))
        behind = f.isub(f.isub(half, start), block - 1)
        target.store_block(behind, [scratch.load(block + e) for e in range(block)])
        target.store_block(start, [scratch.load(e) for e in range(block)])

    f.for_range(f.iadd(f.idiv(half, 2), 1), both, step=block)


def pack_tile(m: ComplexMath, half: Value, table: Value, source: Tile, target: Tile) -> None:
    """Write the `half` elements to be transformed to `target`, real and imaginary parts swapped.

    Args:
        m: emits complex arithmetic.
        half: elements of `target`.
        table: address of the twiddles, as `fold_twiddles` makes them for an inverse.
        source: the `half` + 1 elements of the spectrum X.
        target: where Z is written; it does not overlap `source`.
    """
    f = m.f

    def real(value: Complex) -> Complex:
        # The first and last elements of a real signal's spectrum are real: their imaginary
        # parts are ignored.
        return Complex(value.re, f.zero(m.type))

    first = packed(m, real(source.load(0)), real(source.load(half)), m.constant(table, 0))
    target.store(0, _swapped(first))

    def at(k: Value) -> None:
        mirrored = source.load(f.isub(half, k))
        value = packed(m, source.load(k), mirrored, m.constant(table, k))
        target.store(k, _swapped(value))

    f.for_range(half, at, start=1)


def extend_tile(m: ComplexMath, length: Value, tile: Tile) -> None:
    """Fill the second half of a real signal's spectrum, in place; swap the parts of all of it.

    `m` emits complex arithmetic; `tile` has `length` elements, of which length/2 + 1 are given.
    """
    f = m.f
    tile.store(0, _swapped(Complex(tile.load(0).re, f.zero(m.type))))

    def mirror(k: Value) -> None:
        value = tile.load(k)
        tile.store(k, _swapped(value))
        tile.store(f.isub(length, k), _swapped(m.conj(value)))

    f.for_range(f.iadd(f.idiv(length, 2), 1), mirror, start=1)


def _swapped(value: Complex) -> Complex:
    return Complex(value.im, value.re)

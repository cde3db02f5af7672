# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of a block's sequences: Stockham passes between two tiles of complex numbers.

The mathematics is that of the CPU's steps (`kernel.fft.steps`): lengths with a large prime factor
are convolved with a chirp (Bluestein), an inverse transform is a transform with real and imaginary
parts swapped on the way in and out. Threads take butterflies in turn; a barrier ends each pass.

Invariant: a block reads all of its sequences before it writes one, so it may work in place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.emit.fft.butterflies import Complex, ComplexMath, butterfly, packed, unpacked
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.gpu.emit.function import GLOBAL, SharedMemory, ThreadValues
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.fourier import RADICES, fold_points
from ingot.gpu.schedule.strategies import ChirpConvolution, SequenceTransforms, SpectrumFold, Stage
from ingot.hlo.dtype import C64, DType
from ingot.kernel.fft import tables
from ingot.kernel.fft.build import FINE, Strides
from ingot.kernel.fft.radices import factors
from ingot.kernel.fft.steps import is_columns
from ingot.kernel.ir import Buffer, FftKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

MOST_ROOTS = 4096
"""Roots of unity of larger orders are products of two, of two tables."""


class _Memory:
    """Complex numbers in memory, one after the other."""

    def __init__(self, m: ComplexMath, base: Value, align: int) -> None:
        self.m = m
        self.base = base
        self.align = align
        self.pair = vector(m.type, 2)

    def load(self, index: IndexValue) -> Complex:
        """Return element `index`."""
        f = self.m.f
        found = f.load(self.pair, f.gep(self.base, index, self.pair), self.align)
        return Complex(f.extract(found, 0), f.extract(found, 1))

    def store(self, index: IndexValue, value: Complex) -> None:
        """Set element `index`."""
        f = self.m.f
        pair = f.insert(f.insert(f.undef(self.pair), value.re, 0), value.im, 1)
        f.store(pair, f.gep(self.base, index, self.pair), self.align)


class _Roots:
    """Roots of unity, and other tables, in constant data of the module."""

    def __init__(self, m: ComplexMath, module: ModuleBuilder) -> None:
        self.m = m
        self.module = module
        self._made: dict[str, Value] = {}

    def root(self, order: int, index: IndexValue) -> Complex:
        """Return exp(-2 pi i index / order), 0 <= index < order."""
        m, f = self.m, self.m.f
        if order <= MOST_ROOTS:
            table = self.table(f"roots_{order}", lambda: tables.roots(order, np.arange(order)))
            return m.constant(table, index)
        low = self.table(f"low_roots_{order}", lambda: tables.roots(order, np.arange(FINE)))
        steps = np.arange(0, order, FINE)
        high = self.table(f"high_roots_{order}", lambda: tables.roots(order, steps))
        coarse = m.constant(high, f.idiv(index, FINE))
        return m.mul(coarse, m.constant(low, f.irem(index, FINE)))

    def table(self, name: str, make: Callable[[], tables.Numbers]) -> Value:
        """Return the address of complex numbers that their name determines."""
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name, make())
        return found

    def _make(self, name: str, numbers: tables.Numbers) -> Value:
        scalar = self.m.type
        element = np.complex64 if scalar is lt.F32 else np.complex128
        data = numbers.astype(element).tobytes()
        text = "".join(f"\\{byte:02x}" for byte in data)
        given = f'internal addrspace(1) constant [{len(data)} x i8] c"{text}", align 16'
        return self.module.global_text(f"ingot_{name}_{scalar.text}", given, GLOBAL)


def _math(f: FunctionBuilder, element: DType) -> ComplexMath:
    return ComplexMath(f, lt.F32 if element is C64 else lt.F64, fma=True)


def _memory(m: ComplexMath, buffer: Buffer, address: Value) -> _Memory:
    """Return a buffer's elements, or pairs of real ones."""
    return _Memory(m, address, memory_type(buffer.dtype).alignment)


def _swapped(value: Complex) -> Complex:
    return Complex(value.im, value.re)


Final = Callable[[IndexValue], Complex]
"""Gives the elements of a transform."""


class _SequenceAccess:
    """Loads and stores the elements of a stage's sequences, by their numbers."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, FftKernel), "only these have its strategies"
        strategy = stage.strategy
        assert isinstance(strategy, SequenceTransforms | ChirpConvolution), "it has sequences"
        self.f = f
        self.stage = strategy.stage
        self.is_inverse = strategy.inverse
        self.room = strategy.room
        self.threads = stage.threads
        self.thread = thread_number(f)
        self.m = _math(f, stage.kernel.element)
        self.roots = _Roots(self.m, shared.module)
        self.lanes = emitter.index(self.stage.lanes)
        self.all = emitter.index(self.stage.outer * self.stage.lanes)
        buffers = stage.kernel.buffers
        source, target = strategy.source, strategy.target
        self.source = _memory(self.m, buffers[source], emitter.buffers[source])
        self.target = _memory(self.m, buffers[target], emitter.buffers[target])

    def base(self, strides: Strides, number: IndexValue) -> IndexValue:
        """Return the first element of a sequence in memory."""
        f = self.f
        outer, lane = f.idiv(number, self.lanes), f.irem(number, self.lanes)
        return f.iadd(f.imul(outer, strides.outer), f.imul(lane, strides.lane))

    def load(self, sequence: IndexValue, index: Value) -> Complex:
        """Return an element of a sequence as the stage's load says."""
        f, m, stage = self.f, self.m, self.stage
        base, step = self.base(stage.source, sequence), stage.source.element

        def at(number: IndexValue) -> IndexValue:
            return f.iadd(base, f.imul(number, step))

        is_first = f.icmp("eq", index, f.const(lt.I64, 0))
        if stage.load == "real":
            address = f.gep(self.source.base, at(index), m.type)
            return Complex(f.load(m.type, address), f.zero(m.type))
        if stage.load == "complex":
            value = self.source.load(at(index))
            return _swapped(value) if self.is_inverse else value
        if stage.load == "packed":
            value, mirrored = (
                self._real_if(is_first, self.source.load(at(number)))
                for number in (index, f.isub(stage.length, index))
            )
            root = m.conj(self.roots.root(2 * stage.length, index))
            return _swapped(packed(m, value, mirrored, root))
        beyond = f.as_condition(f.igt(index, stage.length // 2))
        near = f.iselect(beyond, f.isub(stage.length, index), index)
        value = self.source.load(at(near))
        mirrored = Complex(value.re, f.select(beyond, f.neg(value.im), value.im))
        return _swapped(self._real_if(is_first, mirrored))

    def _real_if(self, condition: Value, value: Complex) -> Complex:
        """Return a number, or its real part: the ends of a real signal's spectrum are real."""
        f = self.f
        return Complex(value.re, f.select(condition, f.zero(self.m.type), value.im))

    @property
    def results(self) -> int:
        """Elements that are stored of a sequence."""
        counts = {"unpacked": self.stage.length + 1, "half": self.stage.length // 2 + 1}
        return counts.get(self.stage.store, self.stage.length)

    def write(self, sequence: IndexValue, index: Value, final: Final) -> None:
        """Store a result as the stage's store says; `final` gives the transform's elements."""
        f, m, stage = self.f, self.m, self.stage
        value = self._result(sequence, index, final)
        value = value if stage.scale == 1.0 else m.scaled(value, f.const(m.type, stage.scale))
        value = _swapped(value) if self.is_inverse else value
        offset = f.iadd(self.base(stage.target, sequence), f.imul(index, stage.target.element))
        if stage.store == "real":
            f.store(value.re, f.gep(self.target.base, offset, m.type))
        else:
            self.target.store(offset, value)

    def _result(self, sequence: IndexValue, index: Value, final: Final) -> Complex:
        f, m, stage = self.f, self.m, self.stage
        if stage.store == "unpacked":
            here, there = (
                f.irem(number, stage.length) for number in (index, f.isub(stage.length, index))
            )
            root = self.roots.root(2 * stage.length, index)
            return unpacked(m, final(here), final(there), root)
        value = final(index)
        if not stage.twiddle:
            return value
        lane = f.irem(sequence, self.lanes)
        return m.mul(value, self.roots.root(stage.twiddle, f.imul(index, lane)))

    def chirp(self, index: IndexValue) -> Complex:
        """Return exp(-pi i k^2 / length)."""
        order = 2 * self.stage.length
        return self.roots.root(order, self.f.irem(self.f.imul(index, index), order))


class SequenceEmitter(_SequenceAccess):
    """Emits a stage of transforms, the work of one thread."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        super().__init__(f, emitter, shared, stage)
        assert isinstance(stage.strategy, SequenceTransforms), "each strategy has its emitter"
        self.strategy = stage.strategy
        self.first = f.imul(block_number(f), self.strategy.sequences)
        self.tiles = self._make_tiles(emitter, shared)

    def _make_tiles(self, emitter: ThreadValues, shared: SharedMemory) -> list[_Memory]:
        """Return the tile at hand, and the other one."""
        f, strategy, scalar = self.f, self.strategy, self.m.type
        size = strategy.sequences * strategy.room
        align = 2 * scalar.bytes
        if strategy.tiles is None:
            rooms = [shared.array(scalar, 2 * size) for _ in range(2)]
        else:
            pair = vector(scalar, 2)
            block = f.imul(self.first, 2 * strategy.room)
            own = f.gep(emitter.buffers[strategy.tiles], block, pair)
            rooms = [own, f.gep(own, size, pair)]
        return [_Memory(self.m, room, align) for room in rooms]

    def emit(self) -> None:
        """Emit the whole stage."""
        length, room = self.stage.length, self.room
        radices = factors(length, RADICES)
        self._bring_in(convolves=radices is None)
        if radices is not None:
            self._passes(radices, length)
            self._take_out(self._of_tile)
            return
        # w^(jk) = c_j c_k / c_(j-k), so that the transform is a convolution with c.
        padded = factors(room, RADICES)
        assert padded is not None, "a padded length has small factors"
        self._passes(padded, room)
        self._times_spectrum()
        self._passes(padded, room)
        self._take_out(self._of_convolution)

    # ---- memory

    def _each(self, count: int, columns: bool, body: Callable[[Value, Value], None]) -> None:
        """Run `body` for elements below `count` of all sequences, dealt out to the threads.

        Neighbouring threads have neighbours in memory: sequences that lie side by side, or
        elements.
        """
        f, sequences = self.f, self.strategy.sequences

        def one(number: Value) -> None:
            width = sequences if columns else count
            outer, inner = f.as_value(f.idiv(number, width)), f.as_value(f.irem(number, width))
            body(*((inner, outer) if columns else (outer, inner)))

        f.for_range(sequences * count, one, start=self.thread, step=self.threads)

    def _exists(self, sequence: Value) -> Value:
        return self.f.as_condition(self.f.ilt(self.f.iadd(self.first, sequence), self.all))

    def _offset(self, sequence: Value, index: IndexValue) -> IndexValue:
        """Return the offset of a sequence's element in a tile."""
        return self.f.iadd(self.f.imul(sequence, self.room), index)

    def _bring_in(self, *, convolves: bool) -> None:
        """Put all sequences into the first tile; those that are convolved are padded with zeros."""
        f, m, length = self.f, self.m, self.stage.length
        zero = [f.zero(m.type)] * 2

        def element(sequence: Value, index: Value) -> None:
            inside = f.as_condition(f.ilt(index, length))

            def given() -> list[Value]:
                value = self.load(f.iadd(self.first, sequence), index)
                return list(m.mul(value, self.chirp(index)) if convolves else value)

            found = f.if_(f.and_(self._exists(sequence), inside), given, otherwise=zero)
            self.tiles[0].store(self._offset(sequence, index), Complex(*found))

        self._each(self.room, is_columns(self.stage.source), element)
        barrier(f)

    def _take_out(self, final: Callable[[Value, IndexValue], Complex]) -> None:
        """Write all sequences; `final` is an element of one."""
        f = self.f

        def element(sequence: Value, index: Value) -> None:
            number = f.iadd(self.first, sequence)
            f.if_(
                self._exists(sequence),
                lambda: self.write(number, index, lambda at: final(sequence, at)),
            )

        self._each(self.results, is_columns(self.stage.target), element)

    def _of_tile(self, sequence: Value, index: IndexValue) -> Complex:
        return self.tiles[0].load(self._offset(sequence, index))

    def _of_convolution(self, sequence: Value, index: IndexValue) -> Complex:
        m = self.m
        return m.mul(m.conj(self._of_tile(sequence, index)), self.chirp(index))

    # ---- passes

    def _passes(self, radices: tuple[int, ...], length: int) -> None:
        stride = 1
        for radix in radices:
            self._pass(radix, length, stride)
            stride *= radix

    def _pass(self, radix: int, length: int, stride: int) -> None:
        """Take the radix off `stride` interleaved sequences, into the other tile."""
        f, m = self.f, self.m
        source, target = self.tiles
        step = length // radix

        def group(sequence: Value, index: Value) -> None:
            indices = [f.iadd(index, step * number) for number in range(radix)]
            values = [source.load(self._offset(sequence, each)) for each in indices]
            results = butterfly(m, values)
            butterfly_index, along = f.idiv(index, stride), f.irem(index, stride)
            start = f.iadd(f.imul(butterfly_index, stride * radix), along)
            for number, result in enumerate(results):
                if number and step > stride:
                    root = self.roots.root(length, f.imul(butterfly_index, number * stride))
                    result = m.mul(result, root)
                target.store(self._offset(sequence, f.iadd(start, stride * number)), result)

        self._each(step, False, group)
        barrier(f)
        self.tiles.reverse()

    def _times_spectrum(self) -> None:
        """Multiply the transformed rows by the transform of the chirp."""
        f, m, tile = self.f, self.m, self.tiles[0]
        length, room = self.stage.length, self.room
        spectrum = self.roots.table(
            f"chirp_spectrum_{length}_{room}", lambda: tables.chirp_spectrum(length, room)
        )

        def element(sequence: Value, index: Value) -> None:
            offset = self._offset(sequence, index)
            tile.store(offset, m.mul(m.conj(tile.load(offset)), m.constant(spectrum, index)))

        self._each(room, False, element)
        barrier(f)


class ChirpConvolutionEmitter(_SequenceAccess):
    """Emits a step of a convolution between transforms, the work of one thread."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        super().__init__(f, emitter, shared, stage)
        assert isinstance(stage.strategy, ChirpConvolution), "each strategy has its emitter"
        self.step = stage.strategy.step

    def emit(self) -> None:
        """Emit the whole stage."""
        f = self.f
        work: dict[str, tuple[IndexValue, int, Callable[[IndexValue, Value], None]]] = {
            "begin": (f.iadd(self.all, 1), self.room, self._begin),
            "multiply": (self.all, self.room, self._multiply),
            "end": (self.all, self.results, self._end),
        }
        sequences, width, element = work[self.step]
        thread = f.as_value(f.iadd(f.imul(block_number(f), self.threads), self.thread))
        sequence, index = f.idiv(thread, width), f.as_value(f.irem(thread, width))
        f.if_(f.ilt(sequence, sequences), lambda: element(sequence, index))

    def _offset(self, sequence: IndexValue, index: IndexValue) -> IndexValue:
        """Return the offset of a padded sequence's element."""
        return self.f.iadd(self.f.imul(sequence, self.room), index)

    def _begin(self, sequence: IndexValue, index: Value) -> None:
        """Write sequences times the chirp, with zeros behind, and after them the chirp itself."""
        f, m, length = self.f, self.m, self.stage.length
        zero = [f.zero(m.type)] * 2
        is_given = f.as_condition(f.ilt(sequence, self.all))

        def given() -> list[Value]:
            return list(m.mul(self.load(sequence, index), self.chirp(index)))

        def of_sequence() -> list[Value]:
            return f.if_(f.ilt(index, length), given, otherwise=zero)

        def of_chirp() -> list[Value]:
            # It has values at negative indices too, which are those at the end.
            near = f.imin(index, f.isub(self.room, index))
            return f.if_(
                f.ilt(near, length), lambda: list(m.conj(self.chirp(near))), otherwise=zero
            )

        value = f.if_(is_given, of_sequence, of_chirp)
        self.target.store(self._offset(sequence, index), Complex(*value))

    def _multiply(self, sequence: IndexValue, index: Value) -> None:
        """Multiply transforms by that of the chirp; conjugated, for the transform back."""
        m, offset = self.m, self._offset(sequence, index)
        chirp = self.target.load(self._offset(self.all, index))
        product = m.conj(m.mul(self.target.load(offset), chirp))
        self.target.store(offset, m.scale(product, 1 / self.room))

    def _end(self, sequence: IndexValue, index: Value) -> None:
        """Write the convolved sequences, times the chirp, as results."""
        m = self.m

        def final(at: IndexValue) -> Complex:
            value = self.source.load(self._offset(sequence, at))
            return m.mul(m.conj(value), self.chirp(at))

        self.write(sequence, index, final)


class SpectrumFoldEmitter:
    """Emits a fold of spectra, the work of one thread."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, FftKernel), "only these have its strategy"
        assert isinstance(stage.strategy, SpectrumFold), "each strategy has its emitter"
        self.f = f
        self.emitter = emitter
        self.threads = stage.threads
        self.fold = stage.strategy.stage
        self.m = _math(f, stage.kernel.element)
        self.roots = _Roots(self.m, shared.module)
        buffers = stage.kernel.buffers
        source, target = stage.strategy.source, stage.strategy.target
        self.source = _memory(self.m, buffers[source], emitter.buffers[source])
        self.target = _memory(self.m, buffers[target], emitter.buffers[target])

    def emit(self) -> None:
        """Emit the whole stage."""
        f, fold, points = self.f, self.fold, fold_points(self.fold)
        thread = f.as_value(f.iadd(f.imul(block_number(f), self.threads), thread_number(f)))
        count = self.emitter.index(fold.outer * points)
        f.if_(f.ilt(thread, count), lambda: self._element(thread, points))

    def _element(self, number: Value, points: int) -> None:
        f, m, half, packs = self.f, self.m, self.fold.length, self.fold.packs
        index = f.as_value(f.irem(number, points))
        base = f.imul(f.idiv(number, points), half + 1 if packs else half)
        pair = (index, f.isub(half, index))
        root = self.roots.root(2 * half, index)
        if not packs:
            value, mirrored = (self.source.load(f.iadd(base, f.irem(k, half))) for k in pair)
            self.target.store(number, unpacked(m, value, mirrored, root))
            return
        # The ends of a real signal's spectrum are real.
        is_first = f.icmp("eq", index, f.const(lt.I64, 0))
        value, mirrored = (
            Complex(found.re, f.select(is_first, f.zero(m.type), found.im))
            for found in (self.source.load(f.iadd(base, k)) for k in pair)
        )
        self.target.store(number, packed(m, value, mirrored, m.conj(root)))

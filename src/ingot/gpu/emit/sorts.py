# SPDX-License-Identifier: Apache-2.0
"""Sorts: a tile of elements as numbers in shared memory, in a bitonic network; merges of two runs.

An element of a tile has a number, which says where it comes from and in which order equal elements
stay. Numbers are compared and exchanged; at the end the elements of all operands are moved. The
last slots of a row may have numbers without an element, which stay there.

A comparator that is no order (of NaN, for example) gives some of a row's elements, in some order
that depends on the row alone; memory outside of it is not touched.

Invariant: two numbers are never equal, so that the network, which is not stable, sorts stably.
Source: K. E. Batcher, Sorting networks and their applications (1968); O. Green, R. McColl and
D. A. Bader, GPU Merge Path (2012).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.gpu.emit.function import WIDTH, SharedMemory, ThreadValues
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.sorts import TILE
from ingot.gpu.schedule.strategies import MergeRuns, SortBuffers, SortTiles, Stage
from ingot.kernel.expr import walk
from ingot.kernel.ir import SortKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.support.records import record

Order = Callable[[Value, Value], Value]
"""Whether the element of a number goes before that of a lesser one."""


@record
class Network:
    """A bitonic network over numbers in shared memory, of a power of two of them.

    Attributes:
        f: the function.
        numbers: address of the numbers.
        slots: how many there are.
        threads: threads of the block.
        exists: whether a number has an element.
        before: their order, of two that have one.
    """

    f: FunctionBuilder
    numbers: Value
    slots: int
    threads: int
    exists: Callable[[Value], Value]
    before: Order

    def sort(self, group: int) -> None:
        """Sort every `group` neighbouring numbers, a power of two; all threads wait at the end."""
        f = self.f

        def level(number: Value) -> None:
            self._steps(number, flips=True)

        f.for_range(group.bit_length(), level, start=1, unroll=1)

    def merge(self) -> None:
        """Sort numbers that rise, then fall; all threads wait at the end."""
        levels = self.f.const(lt.I64, self.slots.bit_length() - 1)
        self._steps(levels, flips=False)

    def _steps(self, level: Value, *, flips: bool) -> None:
        """Sort groups of 2^level numbers whose halves are sorted, or that rise and fall."""
        f = self.f
        one = f.const(lt.I64, 1)

        def step(number: Value) -> None:
            shift = f.sub(f.sub(level, one), number)
            half = f.shl(one, shift)
            mask = half
            if flips:
                # The first step compares the least of one half with the greatest of the other.
                is_first = f.icmp("eq", number, f.const(lt.I64, 0))
                mask = f.select(is_first, f.sub(f.shl(half, one), one), half)
            self._exchanges(shift, half, mask)
            barrier(f)

        f.for_range(level, step, unroll=1)

    def _exchanges(self, shift: Value, half: Value, mask: Value) -> None:
        """Order each pair of slots that differ in `mask`, the lower of which has no bit `half`."""
        f = self.f
        one = f.const(lt.I64, 1)

        def pair(number: Value) -> None:
            above = f.shl(f.lshr(number, shift), f.add(shift, one))
            low = f.or_(above, f.and_(number, f.sub(half, one)))
            low_at = f.gep(self.numbers, low, lt.I32)
            high_at = f.gep(self.numbers, f.xor(low, mask), lt.I32)
            lower, higher = f.load(lt.I32, low_at), f.load(lt.I32, high_at)
            falls = f.icmp("ugt", lower, higher)
            sooner = f.zext(f.select(falls, higher, lower), lt.I64)
            later = f.zext(f.select(falls, lower, higher), lt.I64)
            (first,) = f.if_(
                self.exists(later),
                lambda: [self.before(later, sooner)],
                otherwise=[f.const(lt.I1, False)],
            )

            def swap() -> None:
                f.store(higher, low_at)
                f.store(lower, high_at)

            f.if_(f.xor(first, falls), swap)

        f.for_range(self.slots // 2, pair, start=thread_number(f), step=self.threads, unroll=1)


class _SortEmitter:
    """The common part of both stages of a sort; `emit` brings the numbers into order."""

    buffers: SortBuffers
    sources: list[Value]
    targets: list[Value]

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, SortKernel), "only these have its strategies"
        assert isinstance(stage.strategy, SortTiles | MergeRuns), "each strategy has its emitter"
        self.f = f
        self.emitter = emitter
        self.kernel = stage.kernel
        self.strategy = stage.strategy
        self.buffers = stage.strategy.buffers
        self.threads = stage.threads
        self.thread = thread_number(f)
        self.numbers = shared.array(lt.I32, TILE)
        self.keys: Mapping[int, Value] = {
            operand: shared.array(memory_type(self.kernel.elements[operand]), TILE)
            for operand in self.buffers.keys
        }
        self.length = emitter.index(self.kernel.length)
        self.inner = emitter.index(self.kernel.inner)
        self.network = Network(f, self.numbers, TILE, self.threads, self.exists, self._before)

    @abstractmethod
    def exists(self, number: Value) -> Value:
        """Return whether a number has an element."""

    @abstractmethod
    def element(self, number: Value) -> Value:
        """Return which element of the sources a number represents."""

    def base(self, row: IndexValue) -> IndexValue:
        """Return the first element of a row."""
        f = self.f
        outer = f.imul(f.idiv(row, self.inner), f.imul(self.length, self.inner))
        return f.iadd(outer, f.irem(row, self.inner))

    def each(self, body: Callable[[Value], None]) -> None:
        """Run `body` for every slot of the tile, dealt out to the threads."""
        f, emitter = self.f, self.emitter

        def one(slot: Value) -> None:
            emitter.open_scope()
            body(slot)
            emitter.close_scope()

        f.for_range(TILE, one, start=self.thread, step=self.threads)

    def fill(self, first: Callable[[Value], Value]) -> None:
        """Put the keys into shared memory, and a number into each slot: `first` of the slot."""
        f = self.f

        def one(slot: Value) -> None:
            number = f.trunc(first(slot), lt.I32)
            f.store(number, f.gep(self.numbers, slot, lt.I32))
            f.if_(self.exists(slot), lambda: self._fill_keys(slot))

        self.each(one)
        barrier(f)

    def _fill_keys(self, number: Value) -> None:
        f, element = self.f, self.element(number)
        for operand, room in self.keys.items():
            memory = memory_type(self.kernel.elements[operand])
            value = f.load(memory, f.gep(self.sources[operand], element, memory))
            f.store(value, f.gep(room, number, memory))

    def move(self, target: Callable[[Value], Value]) -> None:
        """Move the elements of all operands.

        The element that the number in a slot stands for goes to index `target(slot)`.
        """
        f = self.f

        def one(slot: Value) -> None:
            number = f.zext(f.load(lt.I32, f.gep(self.numbers, slot, lt.I32)), lt.I64)

            def move_elements() -> None:
                source, destination = self.element(number), target(slot)
                pairs = zip(self.kernel.elements, self.sources, self.targets, strict=True)
                for element, here, there in pairs:
                    memory = memory_type(element)
                    value = f.load(memory, f.gep(here, source, memory))
                    f.store(value, f.gep(there, destination, memory))

            f.if_(self.exists(number), move_elements)

        self.each(one)

    def areas(self, merged: IndexValue) -> tuple[list[Value], list[Value]]:
        """Return where a stage leaves the runs of this length that it makes, and the other areas.

        Stages alternate between the results and the scratch, so that the last one ends in the
        results.
        """
        f, emitter = self.f, self.emitter
        results = [emitter.buffers[number] for number in self.buffers.results]
        scratch = [emitter.buffers[number] for number in self.buffers.scratch]
        if not scratch:
            return results, results
        # Each bit of the quotient is a stage that follows.
        runs = f.as_value(f.idiv(f.isub(self.length, 1), merged))
        zeros = f.intrinsic("llvm.ctlz", lt.I64, [runs, f.const(lt.I1, False)])
        is_even = f.icmp("eq", f.and_(zeros, f.const(lt.I64, 1)), f.const(lt.I64, 0))
        pairs = list(zip(results, scratch, strict=True))
        return (
            [f.select(is_even, one, other) for one, other in pairs],
            [f.select(is_even, other, one) for one, other in pairs],
        )

    def _before(self, left: Value, right: Value) -> Value:
        return self.compare(
            lambda operand: self._key(operand, left), lambda operand: self._key(operand, right)
        )

    def compare(self, left: Callable[[int], Value], right: Callable[[int], Value]) -> Value:
        """Return what the comparator says of the operands of two elements."""
        emitter = self.emitter
        emitter.open_scope()
        for node in walk((self.kernel.comparator,)):
            if node.op == "argument":
                side = right if node.payload % 2 else left
                emitter.bind(node, side(node.payload // 2))
        found = emitter.value(self.kernel.comparator)
        emitter.close_scope()
        return found

    def _key(self, operand: int, number: Value) -> Value:
        room = self.keys.get(operand)
        if room is None:
            return self.load(operand, self.element(number))
        return self._widened(operand, room, number)

    def load(self, operand: int, element: Value) -> Value:
        """Return an element of an operand's source, to be compared."""
        return self._widened(operand, self.sources[operand], element)

    def _widened(self, operand: int, base: Value, index: Value) -> Value:
        """Load element `index` of an operand's memory, in the type it is computed in."""
        f, element = self.f, self.kernel.elements[operand]
        memory = memory_type(element)
        found = f.load(memory, f.gep(base, index, memory))
        return widen(f, found, element, self.emitter.has_f16c)


class SortTilesEmitter(_SortEmitter):
    """Emits the sort of tiles: a tile is a part of a row, or several rows."""

    def emit(self) -> None:
        """Emit the whole stage."""
        f, emitter, strategy = self.f, self.emitter, self.strategy
        assert isinstance(strategy, SortTiles), "each strategy has its emitter"
        self.slots = strategy.slots
        block: IndexValue = block_number(f)
        self.row: IndexValue = f.imul(block, TILE // self.slots)
        self.start: IndexValue = 0
        if self.buffers.scratch:
            tiles = f.iceildiv(self.length, TILE)
            self.row, self.start = f.idiv(block, tiles), f.imul(f.irem(block, tiles), TILE)
        self.rows = emitter.index(self.kernel.outer * self.kernel.inner)
        self.sources = [emitter.buffers[number] for number in self.kernel.operands]
        self.targets, _ = self.areas(TILE)
        self.fill(lambda slot: slot)
        self.network.sort(self.slots)
        self.move(self.element)

    def _position(self, number: Value) -> IndexValue:
        return self.f.iadd(self.start, self.f.irem(number, self.slots))

    def _row_of(self, number: Value) -> IndexValue:
        return self.f.iadd(self.row, self.f.idiv(number, self.slots))

    def exists(self, number: Value) -> Value:
        """Return whether a number has an element."""
        f = self.f
        inside = f.ilt(self._position(number), self.length)
        return f.as_condition(f.land(inside, f.ilt(self._row_of(number), self.rows)))

    def element(self, number: Value) -> Value:
        """Return which element a number represents."""
        f = self.f
        along = f.imul(self._position(number), self.inner)
        return f.as_value(f.iadd(self.base(self._row_of(number)), along))


class MergeRunsEmitter(_SortEmitter):
    """Emits a merge of two neighbouring runs: a block makes a tile of the result.

    Both runs are cut by the diagonals of the merge path at which the tile begins and ends.
    """

    def emit(self) -> None:
        """Emit the whole stage."""
        f, emitter = self.f, self.emitter
        width = emitter.names[WIDTH]
        block, tiles = block_number(f), f.iceildiv(self.length, TILE)
        both = f.imul(width, 2)
        start = f.imul(f.irem(block, tiles), TILE)
        left = f.imul(f.idiv(start, both), both)
        middle = f.imin(f.iadd(left, width), self.length)
        end = f.imin(f.iadd(left, both), self.length)
        self.first = self.base(f.idiv(block, tiles))
        self.targets, self.sources = self.areas(both)
        self.left, self.middle, self.end = left, middle, end
        diagonals = (
            f.isub(start, left),
            f.imin(f.isub(f.iadd(start, TILE), left), f.isub(end, left)),
        )
        low, high = map(self._path, diagonals)
        # A comparator that is no order may give any pair of diagonals.
        self.count = f.isub(diagonals[1], diagonals[0])
        self.lefts = f.imin(f.imax(f.isub(high, low), 0), self.count)
        self.left_start = f.iadd(left, low)
        self.right_start = f.iadd(middle, f.isub(diagonals[0], low))
        self.fill(self._bitonic)
        self.network.merge()
        self.move(lambda slot: self._element(f.iadd(start, slot)))

    def _element(self, position: IndexValue) -> Value:
        f = self.f
        return f.as_value(f.iadd(self.first, f.imul(position, self.inner)))

    def _path(self, diagonal: IndexValue) -> Value:
        """Return how many of the first `diagonal` elements are of the left run."""
        f = self.f
        rights = f.isub(self.end, self.middle)
        low = f.as_value(f.imax(f.isub(diagonal, rights), 0))
        high = f.as_value(f.imin(diagonal, f.isub(self.middle, self.left)))
        one = f.const(lt.I64, 1)

        def narrow(bounds: list[Value]) -> list[Value]:
            low, high = bounds
            probe = f.lshr(f.add(low, high), one)
            mine = self._element(f.iadd(self.left, probe))
            other = f.isub(f.isub(f.iadd(self.middle, diagonal), 1), probe)
            its = self._element(other)
            # Of equal elements the left run's come first.
            goes = self.compare(
                lambda operand: self.load(operand, its), lambda operand: self.load(operand, mine)
            )
            return [
                f.select(goes, low, f.add(probe, one)),
                f.select(goes, probe, high),
            ]

        found, _ = f.while_([low, high], lambda bounds: f.icmp("slt", *bounds), narrow)
        return found

    def _bitonic(self, slot: Value) -> Value:
        """Return the number of a slot: of the left run, of none, of the right run from its end."""
        f = self.f
        rights = f.isub(self.count, self.lefts)
        is_left = f.as_condition(f.ilt(slot, self.lefts))
        is_right = f.as_condition(f.ige(slot, f.isub(TILE, rights)))
        right = f.as_value(f.isub(f.iadd(self.lefts, TILE - 1), slot))
        none = f.as_value(f.iadd(slot, rights))
        return f.select(is_left, slot, f.select(is_right, right, none))

    def exists(self, number: Value) -> Value:
        """Return whether a number has an element."""
        return self.f.as_condition(self.f.ilt(number, self.count))

    def element(self, number: Value) -> Value:
        """Return which element a number represents."""
        f = self.f
        of_left = f.iadd(self.left_start, number)
        of_right = f.iadd(self.right_start, f.isub(number, self.lefts))
        is_left = f.ilt(number, self.lefts)
        return self._element(f.iselect(is_left, of_left, of_right))

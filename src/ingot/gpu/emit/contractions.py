# SPDX-License-Identifier: Apache-2.0
"""Tiled matrix products, plain ones for every element type: operands through shared memory.

A block goes along k in steps. In each, its threads evaluate the operands at the next tile of points
while they multiply the one before, which they take from shared memory; then they put what they have
evaluated there, behind a barrier. Sums stay in registers; the epilogue stores them.

Invariant: an element's products are added in the order of k, so results do not depend on tiles,
only on how many parts k has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import combine
from ingot.gpu.emit.function import SharedMemory, ThreadValues
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.contractions import SIDE
from ingot.gpu.schedule.strategies import PART, Stage, TensorCores, TiledContraction
from ingot.hlo import dim
from ingot.hlo.dtype import PRED, REAL_OF, DType
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, converted, walk
from ingot.kernel.ir import Axis, Combiner, ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Condition
from ingot.llvm.types import vector
from ingot.llvm.values import Value

ROOMS = 2
"""Tiles of each operand in shared memory: one is filled while the other is multiplied."""

PAD_BYTES = 16
"""Between rows of shared memory, so that the elements of a column lie in different banks."""


class ContractionEmitter:
    """Emits a contraction kernel, the work of one thread; subclasses have tiles of their own.

    Attributes:
        corner: the first row and column of the block's tile.
        end: where the block's part of k ends.
    """

    corner: tuple[IndexValue, IndexValue]
    end: IndexValue

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ThreadValues,
        shared: SharedMemory,
        stage: Stage,
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, ContractionKernel), "only these have its strategy"
        assert isinstance(stage.strategy, TiledContraction | TensorCores), "these have its emitters"
        self.f = f
        self.emitter = emitter
        self.kernel = stage.kernel
        self.tile, self.depth = stage.strategy.tile, stage.strategy.depth
        self.part = stage.strategy.part
        self.threads = stage.threads
        self.thread = thread_number(f)
        self.open_tiles(shared, stage.strategy)

    def open_tiles(self, shared: SharedMemory, strategy: TiledContraction | TensorCores) -> None:
        """Make room for tiles of both operands, and say which sums are this thread's."""
        assert isinstance(strategy, TiledContraction), "each strategy has its emitter"
        f = self.f
        self.along_k = {True: strategy.lhs_along_k, False: strategy.rhs_along_k}
        self.cell = memory_type(self.kernel.accumulate)
        self.pitch = self.tile + PAD_BYTES // self.cell.bytes
        self.room = self.depth * self.pitch
        self.lhs, self.rhs = (shared.array(self.cell, ROOMS * self.room) for _ in range(2))
        self.each = self.tile // SIDE
        self.group = min(self.each, PAD_BYTES // max(4, self.cell.bytes))
        # Neighbouring threads have neighbouring columns, which the stores are dense along.
        self.column = f.and_(self.thread, f.const(self.thread.type, SIDE - 1))
        self.row = f.as_value(f.idiv(self.thread, SIDE))

    def emit(self) -> None:
        """Emit the whole kernel."""
        first = self._open_block()
        sums = self._pipeline(first, self.zeros())
        self.store(sums)

    def _open_block(self) -> IndexValue:
        """Say which tile the block has, of which batch, and which part of k; return its start."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        tiles = [f.iceildiv(emitter.index(axis.extent), self.tile) for axis in (kernel.m, kernel.n)]
        block: IndexValue = block_number(f)
        n_tile = f.irem(block, tiles[1])
        block = f.idiv(block, tiles[1])
        m_tile = f.irem(block, tiles[0])
        block = f.idiv(block, tiles[0])
        self.corner = (f.imul(m_tile, self.tile), f.imul(n_tile, self.tile))
        depth = emitter.index(kernel.k.extent)
        if self.part is None:
            emitter.names[kernel.batch.name] = block
            self.end = depth
            return 0
        parts = f.iceildiv(depth, self.part)
        emitter.names[PART] = f.irem(block, parts)
        emitter.names[kernel.batch.name] = f.idiv(block, parts)
        first = f.imul(emitter.names[PART], self.part)
        self.end = f.imin(f.iadd(first, self.part), depth)
        return first

    def _pipeline(self, first: IndexValue, sums: list[Value]) -> list[Value]:
        """Go along k: the next tile is on its way while the one before is multiplied."""
        f = self.f

        def fetched(start: IndexValue, room: Value) -> list[Value]:
            inside = f.ilt(start, self.end)
            return f.if_(inside, lambda: self.fetch(start, room), otherwise=self.nothing())

        def put(room: Value, values: list[Value]) -> None:
            self.put(room, values)
            self.settle()

        start = f.const(lt.I64, 0)
        put(start, fetched(first, start))

        def step(start: Value, carried: list[Value]) -> list[Value]:
            room, *before = carried
            other = f.xor(room, f.const(room.type, self.room))
            values = fetched(f.iadd(start, self.depth), other)
            after = self.multiply(room, before)
            put(other, values)
            return [other, *after]

        return f.loop(first, self.end, self.depth, [start, *sums], step)[1:]

    # ---- the plain tiles

    def zeros(self) -> list[Value]:
        """Return sums of nothing."""
        zero = ex.scalar(0, self.kernel.accumulate)
        return [self.emitter.value(zero)] * self.each**2

    def settle(self) -> None:
        """Wait until the tiles that were fetched are in shared memory, and those before read."""
        barrier(self.f)

    def nothing(self) -> list[Value]:
        """Return zeros, as `fetch` returns values, for the end of k."""
        return [self.f.zero(self.cell)] * (2 * self.depth * self.tile // self.threads)

    def fetch(self, start: IndexValue, room: Value) -> list[Value]:
        """Evaluate this thread's elements of the next tiles of both operands."""
        return [
            self._element(start, step, free, is_lhs=is_lhs)
            for is_lhs in (True, False)
            for step, free in self._elements(is_lhs=is_lhs)
        ]

    def put(self, room: Value, values: Sequence[Value]) -> None:
        """Put the fetched elements into shared memory."""
        f, given = self.f, iter(values)
        for is_lhs in (True, False):
            for step, free in self._elements(is_lhs=is_lhs):
                at = f.iadd(room, f.iadd(f.imul(step, self.pitch), free))
                f.store(next(given), f.gep(self.lhs if is_lhs else self.rhs, at, self.cell))

    def _elements(self, *, is_lhs: bool) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Visit this thread's elements of a tile: positions along k, and along m or n."""
        f, along_k = self.f, self.along_k[is_lhs]
        width = self.depth if along_k else self.tile
        for at in range(0, self.depth * self.tile, self.threads):
            number = f.iadd(self.thread, at)
            outer, inner = f.idiv(number, width), f.irem(number, width)
            yield (inner, outer) if along_k else (outer, inner)

    def _element(
        self, start: IndexValue, step: IndexValue, free: IndexValue, *, is_lhs: bool
    ) -> Value:
        operand = self.kernel.lhs if is_lhs else self.kernel.rhs
        value = converted(operand, self.kernel.accumulate)
        found = self.element(value, self.f.iadd(start, step), free, is_lhs=is_lhs)
        return self.f.zext(found, self.cell) if self.kernel.accumulate is PRED else found

    def element(self, value: Expr, along: IndexValue, free: IndexValue, *, is_lhs: bool) -> Value:
        """Return an operand's element; zero behind the end of k.

        Args:
            value: the operand, as an expression of its axes.
            along: the position along k.
            free: the position along m (lhs) or n, counted from the corner of the block's tile.
            is_lhs: which operand it is.
        """
        f, emitter = self.f, self.emitter
        emitter.open_scope()
        inside = self.name_element(along, free, is_lhs=is_lhs)
        found = emitter.value(value)
        emitter.close_scope()
        if isinstance(inside, bool) and inside:
            return found
        return f.select(f.as_condition(inside), found, f.zero(found.type))

    def name_element(self, along: IndexValue, free: IndexValue, *, is_lhs: bool) -> Condition:
        """Bind an operand's axes to positions that exist; return whether `along` is one.

        `along` and `free` are those of `element`.
        """
        f, kernel = self.f, self.kernel
        axis, corner = (kernel.m, self.corner[0]) if is_lhs else (kernel.n, self.corner[1])
        last = f.isub(self.emitter.index(axis.extent), 1)
        self._name(axis, f.imin(f.iadd(corner, free), last), is_lhs=is_lhs)
        if dim.known_multiple_of(kernel.k.extent, self.depth):
            self._name(kernel.k, along, is_lhs=is_lhs)
            return True
        self._name(kernel.k, f.imin(along, f.isub(self.end, 1)), is_lhs=is_lhs)
        return f.ilt(along, self.end)

    def _name(self, axis: Axis, position: IndexValue, *, is_lhs: bool) -> None:
        """Bind an axis, or the axes behind it that the lhs of a convolution is over."""
        names, patches = self.emitter.names, self.kernel.patches
        names[axis.name] = position
        if patches is None or not is_lhs:
            return
        axes = patches.k if axis is self.kernel.k else patches.m
        if not axes:
            return
        for inner in reversed(axes[1:]):
            extent = self.emitter.index(inner.extent)
            names[inner.name] = self.f.irem(position, extent)
            position = self.f.idiv(position, extent)
        names[axes[0].name] = position

    def multiply(self, room: Value, sums: list[Value]) -> list[Value]:
        """Add the products of the tiles in shared memory."""
        step = _product_sum(self.kernel.accumulate)
        for depth in range(self.depth):
            rows = self._cells(self.lhs, room, depth, self.row)
            columns = self._cells(self.rhs, room, depth, self.column)
            pairs = product(rows, columns)
            sums = [
                combine(self.emitter, step, (total, *pair))[0]
                for total, pair in zip(sums, pairs, strict=True)
            ]
        return sums

    def _cells(self, base: Value, room: Value, depth: int, first: Value) -> list[Value]:
        """Return this thread's elements of an operand, groups of them loaded at once."""
        f, group = self.f, self.group
        found: list[Value] = []
        for start in range(0, self.each, group):
            at = f.iadd(f.iadd(room, depth * self.pitch + start * SIDE), f.imul(first, group))
            type = vector(self.cell, group)
            held = f.load(type, f.gep(base, at, self.cell), type.bytes)
            found += [f.extract(held, lane) for lane in range(group)] if group > 1 else [held]
        if self.kernel.accumulate is PRED:
            return [f.icmp("ne", cell, f.zero(cell.type)) for cell in found]
        return found

    def store(self, sums: Sequence[Value]) -> None:
        """Store the results of this thread."""
        for (i, j), total in zip(product(range(self.each), range(self.each)), sums, strict=True):
            row = self._tile_position(self.row, i)
            self.store_sum(row, self._tile_position(self.column, j), total)

    def _tile_position(self, first: Value, number: int) -> IndexValue:
        """Return where in the tile this thread's row, or column, `number` lies."""
        f, group = self.f, self.group
        start = number // group * group * SIDE + number % group
        return f.iadd(f.imul(first, group), start)

    def store_sum(self, row: IndexValue, column: IndexValue, total: Value) -> None:
        """Store the sum at a row and a column of the tile, unless it lies beyond the product."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        exprs = tuple(expr for store in kernel.stores for expr in store.exprs)
        leaves = [node for node in walk(exprs) if node.op == "accumulator"]
        m, n = f.iadd(self.corner[0], row), f.iadd(self.corner[1], column)
        inside = [
            f.as_condition(f.ilt(position, emitter.index(axis.extent)))
            for position, axis in ((m, kernel.m), (n, kernel.n))
        ]

        def store() -> None:
            emitter.names[kernel.m.name], emitter.names[kernel.n.name] = m, n
            emitter.open_scope()
            for leaf in leaves:
                emitter.bind(leaf, total)
            emitter.store_all(kernel.stores)
            emitter.close_scope()

        f.if_(f.and_(*inside), store)


def _product_sum(element: DType) -> Combiner:
    """Return sum + left * right over arguments of a type."""
    total, left, right = (ex.argument(number, element) for number in range(3))
    if not element.is_complex:
        value = _of("multiply", left, right)
        return Combiner((_of("add", total, value),))
    part = REAL_OF[element]
    reals, imaginaries = (
        [ex.compute(which, value, dtype=part) for value in (total, left, right)]
        for which in ("real", "imag")
    )
    products = (
        _of("subtract", _of("multiply", *reals[1:]), _of("multiply", *imaginaries[1:])),
        _of(
            "add",
            _of("multiply", reals[1], imaginaries[2]),
            _of("multiply", imaginaries[1], reals[2]),
        ),
    )
    parts = (_of("add", reals[0], products[0]), _of("add", imaginaries[0], products[1]))
    return Combiner((ex.compute("complex", *parts, dtype=element),))


def _of(opcode: str, left: Expr, right: Expr) -> Expr:
    return ex.compute(opcode, left, right)

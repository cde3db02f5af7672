# SPDX-License-Identifier: Apache-2.0
"""A plain tiled matrix product, for every element type: operands through shared memory.

A block goes along k in steps. In each, its threads evaluate the operands at a tile of points and
put them into shared memory; behind a barrier each thread takes its rows and columns from there.
Sums stay in registers; the epilogue stores them.

Invariant: an element's products are added in the order of k, so results do not depend on tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import combine
from ingot.gpu.emit.function import SharedMemory, ThreadValues
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.contractions import DEPTH, SIDE, TILE
from ingot.gpu.schedule.strategies import Stage, TiledContraction
from ingot.hlo.dtype import C64, F32, F64, PRED, DType
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.kernel import expr as ex
from ingot.kernel.elemental.points import converted
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import Axis, Combiner, ContractionKernel
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value

EACH = TILE // SIDE
"""Rows, and columns, of a tile that a thread computes."""


class ContractionEmitter:
    """Emits a contraction kernel, the work of one thread."""

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ThreadValues,
        shared: SharedMemory,
        stage: Stage,
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, ContractionKernel), "only these have its strategy"
        assert isinstance(stage.strategy, TiledContraction), "each strategy has its emitter"
        self.f = f
        self.emitter = emitter
        self.kernel = stage.kernel
        self.strategy = stage.strategy
        self.threads = stage.threads
        self.cell = memory_type(self.kernel.accumulate)
        self.lhs, self.rhs = (shared.array(self.cell, DEPTH * TILE) for _ in range(2))
        self.thread = thread_number(f)
        # Neighbouring threads have neighbouring columns, which the stores are dense along.
        self.column = f.and_(self.thread, f.const(self.thread.type, SIDE - 1))
        self.row = f.as_value(f.idiv(self.thread, SIDE))

    def emit(self) -> None:
        """Emit the whole kernel."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        tiles = [f.iceildiv(emitter.index(axis.extent), TILE) for axis in (kernel.m, kernel.n)]
        block: IndexValue = block_number(f)
        n_tile = f.irem(block, tiles[1])
        block = f.idiv(block, tiles[1])
        m_tile = f.irem(block, tiles[0])
        emitter.names[kernel.batch.name] = f.idiv(block, tiles[0])
        corner = (f.imul(m_tile, TILE), f.imul(n_tile, TILE))
        zero = f.zero(emitter.value(ex.constant(kernel.accumulate.numpy.type(0))).type)
        depth = emitter.index(kernel.k.extent)

        def step(start: Value, sums: list[Value]) -> list[Value]:
            self._fill(self.lhs, kernel.lhs, corner[0], start, is_lhs=True)
            self._fill(self.rhs, kernel.rhs, corner[1], start, is_lhs=False)
            barrier(f)
            sums = self._multiply(sums)
            # Before the next step overwrites what others may still read.
            barrier(f)
            return sums

        sums = f.loop(0, depth, DEPTH, [zero] * EACH**2, step)
        self._store(corner, sums)

    def _fill(
        self, room: Value, operand: Expr, corner: IndexValue, start: Value, *, is_lhs: bool
    ) -> None:
        """Put a tile of an operand into shared memory, by rows of k; zeros behind the end of k."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        value = converted(operand, kernel.accumulate)
        free = kernel.m if is_lhs else kernel.n
        along_k = self.strategy.lhs_along_k if is_lhs else self.strategy.rhs_along_k
        last = f.isub(emitter.index(free.extent), 1)
        depth = emitter.index(kernel.k.extent)

        def one(at: Value, _: list[Value]) -> None:
            number = f.as_value(f.iadd(at, self.thread))
            width = DEPTH if along_k else TILE
            outer, inner = f.idiv(number, width), f.irem(number, width)
            place, step = (outer, inner) if along_k else (inner, outer)
            position = f.imin(f.iadd(corner, place), last)
            along = f.iadd(start, step)
            emitter.open_scope()
            self._name(free, position, is_lhs=is_lhs)
            self._name(kernel.k, f.imin(along, f.isub(depth, 1)), is_lhs=is_lhs)
            found = emitter.value(value)
            inside = f.as_condition(f.ilt(along, depth))
            held = f.select(inside, found, f.zero(found.type))
            cell = f.zext(held, self.cell) if kernel.accumulate is PRED else held
            f.store(cell, f.gep(room, f.iadd(f.imul(step, TILE), place), self.cell))
            emitter.close_scope()

        f.loop(0, DEPTH * TILE, self.threads, [], one)

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

    def _multiply(self, sums: list[Value]) -> list[Value]:
        """Add the products of the tile in shared memory."""
        step = _product_sum(self.kernel.accumulate)
        for depth in range(DEPTH):
            rows = [self._cell(self.lhs, depth, self.row, number) for number in range(EACH)]
            columns = [self._cell(self.rhs, depth, self.column, number) for number in range(EACH)]
            pairs = product(rows, columns)
            sums = [
                combine(self.emitter, step, (total, *pair))[0]
                for total, pair in zip(sums, pairs, strict=True)
            ]
        return sums

    def _cell(self, room: Value, depth: int, first: Value, number: int) -> Value:
        f = self.f
        place = f.iadd(first, depth * TILE + number * SIDE)
        found = f.load(self.cell, f.gep(room, place, self.cell))
        return f.icmp("ne", found, f.zero(found.type)) if self.kernel.accumulate is PRED else found

    def _store(self, corner: tuple[IndexValue, IndexValue], sums: Sequence[Value]) -> None:
        """Store the results of this thread that are inside of the grid."""
        f, emitter, kernel = self.f, self.emitter, self.kernel
        exprs = tuple(expr for store in kernel.stores for expr in store.exprs)
        leaves = [node for node in walk(exprs) if node.op == "accumulator"]
        for (i, j), total in zip(product(range(EACH), range(EACH)), sums, strict=True):
            m = f.iadd(f.iadd(corner[0], self.row), i * SIDE)
            n = f.iadd(f.iadd(corner[1], self.column), j * SIDE)
            inside = [
                f.as_condition(f.ilt(position, emitter.index(axis.extent)))
                for position, axis in ((m, kernel.m), (n, kernel.n))
            ]

            def then(m: IndexValue = m, n: IndexValue = n, total: Value = total) -> None:
                emitter.names[kernel.m.name], emitter.names[kernel.n.name] = m, n
                emitter.open_scope()
                for leaf in leaves:
                    emitter.bind(leaf, total)
                emitter.store_all(kernel.stores)
                emitter.close_scope()

            f.if_(f.and_(*inside), then)


def _product_sum(element: DType) -> Combiner:
    """Return sum + left * right over arguments of a type."""
    total, left, right = (ex.argument(number, element) for number in range(3))
    if not element.is_complex:
        value = _of("multiply", left, right)
        return Combiner((_of("add", total, value),))
    part = F32 if element is C64 else F64
    reals, imaginaries = (
        [ex.make(which, part, (value,), NO_ATTRIBUTES) for value in (total, left, right)]
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
    return Combiner((ex.make("complex", element, parts, NO_ATTRIBUTES),))


def _of(opcode: str, left: Expr, right: Expr) -> Expr:
    return ex.make(opcode, left.dtype, (left, right), NO_ATTRIBUTES)

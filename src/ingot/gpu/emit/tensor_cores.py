# SPDX-License-Identifier: Apache-2.0
"""Tiled matrix products on tensor cores: warps multiply fragments of tiles (mma.sync).

A block of eight warps, two by four, has a tile of the result. Operands lie in shared memory in
their own type, in rows along k or across it, as their memory is dense; `ldmatrix` transposes them
on the way to registers. Chunks of 16 bytes are copied there asynchronously; other operands are
evaluated element by element, packed into words and stored by the threads. At the end each warp lays
its sums out in shared memory, a few rows at a time, and stores them with its lanes along columns.

Invariant: the order in which products are added depends on sizes alone.
Source: NVIDIA, PTX ISA, "Matrix fragments for mma.m16n8k16" and those of the other shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, narrow
from ingot.gpu.emit.contractions import PAD_BYTES, ROOMS, ContractionEmitter
from ingot.gpu.emit.function import SharedMemory
from ingot.gpu.intrinsics import (
    WARP,
    barrier,
    copy_chunk,
    load_matrices,
    multiply_fragments,
    wait_for_copies,
    warp_barrier,
)
from ingot.gpu.schedule.strategies import Feed, TensorCores, TiledContraction
from ingot.gpu.schedule.tensor_cores import CHUNK_BYTES
from ingot.hlo.dtype import BF16, F16, F64, S8, DType
from ingot.kernel.expr import Expr
from ingot.llvm import types as lt
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record

WARPS = (2, 4)
"""Warps of a block along m and along n."""

WORD_BYTES = 4

SUM_PAD = 8
"""Sums between rows of a warp's sums in shared memory."""

COLUMNS = 8
"""Columns of the product of one instruction."""


@record
class Fragments:
    """A warp's product: its instruction, and which part of its operands a lane holds.

    Attributes:
        name: shape, layouts and types, as the instruction's name has them.
        word: type of the registers of the operands.
        sum: type of the registers of the sums.
        rows: rows of the product.
        depth: positions along k.
    """

    name: str
    word: Type
    sum: Type
    rows: int
    depth: int


FRAGMENTS: Mapping[DType, Fragments] = {
    BF16: Fragments("m16n8k16.row.col.bf16", lt.I32, lt.F32, 16, 16),
    F16: Fragments("m16n8k16.row.col.f32.f32", vector(lt.F16, 2), lt.F32, 16, 16),
    S8: Fragments("m16n8k32.row.col.s8", lt.I32, lt.I32, 16, 32),
    F64: Fragments("m8n8k4.row.col.f64", lt.F64, lt.F64, 8, 4),
}
"""By the type of the operands."""


class Operand:
    """An operand in shared memory: where its elements lie, and those of this lane."""

    def __init__(self, feed: Feed, size: int, tile: int, depth: int) -> None:
        """Lay out a tile of elements of `size` bytes."""
        self.feed = feed
        self.size = size
        self.width = depth if feed.along_k else tile
        self.lines = tile if feed.along_k else depth
        # 16 bytes keep rows apart for ldmatrix, 32 for single elements of f64.
        self.pitch = self.width * size + PAD_BYTES * (2 if size == lt.F64.bytes else 1)
        self.bytes = self.lines * self.pitch

    def offset(self, free: int, step: int) -> int:
        """Return the bytes from the tile's first element to another.

        Args:
            free: its position along m or n.
            step: its position along k.
        """
        line, inner = (free, step) if self.feed.along_k else (step, free)
        return line * self.pitch + inner * self.size


class TensorCoreEmitter(ContractionEmitter):
    """Emits a contraction kernel whose products are those of warps."""

    def open_tiles(self, shared: SharedMemory, strategy: TiledContraction | TensorCores) -> None:
        """Make room for tiles of both operands, and say which sums are this warp's."""
        assert isinstance(strategy, TensorCores), "each strategy has its emitter"
        f = self.f
        self.element_type = self.kernel.lhs.dtype
        self.fragments = FRAGMENTS[self.element_type]
        size = self.element_type.bits // 8
        self.operands = {
            is_lhs: Operand(feed, size, self.tile, self.depth)
            for is_lhs, feed in ((True, strategy.lhs), (False, strategy.rhs))
        }
        self.sides = (self.tile // WARPS[0], self.tile // WARPS[1])
        self.room = sum(operand.bytes for operand in self.operands.values())
        self.sum_pitch = self.sides[1] + SUM_PAD
        self.sum_bytes = self.fragments.rows * self.sum_pitch * self.fragments.sum.bytes
        warps = WARPS[0] * WARPS[1]
        self.base = shared.array(lt.I8, max(ROOMS * self.room, warps * self.sum_bytes))
        self.lane = f.and_(self.thread, f.const(lt.I64, WARP - 1))
        self.warp = f.idiv(self.thread, WARP)
        self.warp_corner = (
            f.imul(f.irem(self.warp, WARPS[0]), self.sides[0]),
            f.imul(f.idiv(self.warp, WARPS[0]), self.sides[1]),
        )
        self.firsts = {is_lhs: self._first(is_lhs=is_lhs) for is_lhs in (True, False)}
        self.aligned = {
            is_lhs: self._is_aligned(is_lhs=is_lhs)
            for is_lhs, operand in self.operands.items()
            if operand.feed.chunks
        }

    def _start(self, *, is_lhs: bool) -> int:
        """Return where a room has an operand's tile."""
        return 0 if is_lhs else self.operands[True].bytes

    # ---- into shared memory

    def _is_aligned(self, *, is_lhs: bool) -> Value:
        """Whether the buffer that an operand is loaded from begins at a multiple of 16 bytes.

        Buffers of the compiler's do; what another library hands over need not.
        """
        f = self.f
        address = f.ptrtoint(self.emitter.buffers[self._operand(is_lhs=is_lhs).payload.buffer])
        return f.icmp("eq", f.and_(address, f.const(lt.I64, CHUNK_BYTES - 1)), f.const(lt.I64, 0))

    def _operand(self, *, is_lhs: bool) -> Expr:
        return self.kernel.lhs if is_lhs else self.kernel.rhs

    def nothing(self) -> list[Value]:
        """Return zeros, as `fetch` returns values, for the end of k."""
        return [
            self.f.zero(self._word_type)
            for is_lhs, operand in self.operands.items()
            if not operand.feed.chunks
            for _ in self._words(is_lhs=is_lhs)
        ]

    def fetch(self, start: IndexValue, room: Value) -> list[Value]:
        """Copy the chunks of the next tiles; return words of the chunks that are not copied."""
        found: list[Value] = []
        for is_lhs, operand in self.operands.items():
            if operand.feed.chunks:
                self._copy(start, room, is_lhs=is_lhs)
            else:
                words = self._words(is_lhs=is_lhs)
                found += [self._word(start, *word, is_lhs=is_lhs) for word in words]
        return found

    def put(self, room: Value, values: Sequence[Value]) -> None:
        """Put the fetched elements into shared memory."""
        f, given = self.f, iter(values)
        for is_lhs, operand in self.operands.items():
            if operand.feed.chunks:
                continue
            for line, inner in self._words(is_lhs=is_lhs):
                value = next(given)
                f.store(value, self._at(room, line, inner, is_lhs=is_lhs), value.type.bytes)

    def settle(self) -> None:
        """Wait until the tiles that were fetched are in shared memory, and those before read."""
        if self.aligned:
            wait_for_copies(self.f)
        barrier(self.f)

    def _at(self, room: Value, line: IndexValue, inner: IndexValue, *, is_lhs: bool) -> Value:
        """Return the address of an element in shared memory."""
        f, operand = self.f, self.operands[is_lhs]
        offset = f.iadd(f.imul(line, operand.pitch), f.imul(inner, operand.size))
        at = f.iadd(f.iadd(room, offset), self._start(is_lhs=is_lhs))
        return f.gep(self.base, at)

    @property
    def _pack(self) -> int:
        """Elements of a word."""
        return max(1, WORD_BYTES * 8 // self.element_type.bits)

    @property
    def _word_type(self) -> Type:
        return lt.F64 if self.element_type is F64 else lt.I32

    def _words(self, *, is_lhs: bool) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Visit this thread's words of a tile: their lines, and their first elements there."""
        operand = self.operands[is_lhs]
        across = operand.feed.neighbours_along_k is not operand.feed.along_k
        return self._groups(operand, self._pack, across=across)

    def _groups(
        self, operand: Operand, count: int, *, across: bool
    ) -> Iterator[tuple[IndexValue, IndexValue]]:
        """Deal groups of `count` elements of a tile out to threads, along lines or across them."""
        f = self.f
        width = operand.lines if across else operand.width // count
        for at in range(0, operand.lines * operand.width // count, self.threads):
            number = f.iadd(self.thread, at)
            outer, inner = f.idiv(number, width), f.irem(number, width)
            line, group = (inner, outer) if across else (outer, inner)
            yield line, f.imul(group, count)

    def _word(
        self, start: IndexValue, line: IndexValue, inner: IndexValue, *, is_lhs: bool
    ) -> Value:
        """Return a word of elements that lie together in shared memory."""
        f = self.f
        parts = [
            self._memory_element(start, line, f.iadd(inner, at), is_lhs=is_lhs)
            for at in range(self._pack)
        ]
        if len(parts) == 1:
            return parts[0]
        word = f.zext(parts[0], lt.I32)
        for at, part in enumerate(parts[1:], 1):
            moved = f.shl(f.zext(part, lt.I32), f.const(lt.I32, at * self.element_type.bits))
            word = f.or_(word, moved)
        return word

    def _memory_element(
        self, start: IndexValue, line: IndexValue, inner: IndexValue, *, is_lhs: bool
    ) -> Value:
        free, step = (line, inner) if self.operands[is_lhs].feed.along_k else (inner, line)
        value = self._operand(is_lhs=is_lhs)
        found = self.element(value, self.f.iadd(start, step), free, is_lhs=is_lhs)
        return narrow(self.f, found, self.element_type, self.emitter.has_f16c)

    def _copy(self, start: IndexValue, room: Value, *, is_lhs: bool) -> None:
        """Copy an operand's chunks; element by element if its buffer is not aligned."""
        f, operand = self.f, self.operands[is_lhs]
        count = CHUNK_BYTES // operand.size

        def chunks() -> None:
            for line, inner in self._groups(operand, count, across=False):
                self._copy_chunk(start, room, (line, inner), is_lhs=is_lhs)

        def elements() -> None:
            for line, inner in self._groups(operand, count, across=False):
                for at in range(count):
                    element = f.iadd(inner, at)
                    value = self._memory_element(start, line, element, is_lhs=is_lhs)
                    f.store(value, self._at(room, line, element, is_lhs=is_lhs))

        f.if_(self.aligned[is_lhs], chunks, elements)

    def _copy_chunk(
        self, start: IndexValue, room: Value, at: tuple[IndexValue, IndexValue], *, is_lhs: bool
    ) -> None:
        """Copy a chunk; elements that are masked or lie behind the end of k become zeros."""
        f, emitter = self.f, self.emitter
        line, inner = at
        operand, load = self.operands[is_lhs], self._operand(is_lhs=is_lhs)
        free, step = (line, inner) if operand.feed.along_k else (inner, line)
        emitter.open_scope()
        if not operand.feed.along_k:
            # A chunk behind the end repeats the last one, all of which is in the operand.
            free = self._last_chunk(free, CHUNK_BYTES // operand.size, is_lhs=is_lhs)
        inside = self.name_element(f.iadd(start, step), free, is_lhs=is_lhs)
        mask = f.as_condition(inside)
        if load.payload.masked:
            mask = f.and_(mask, emitter.value(load.args[0]))
        index = f.iselect(mask, emitter.index(load.payload.index), 0)
        source = f.gep(emitter.buffers[load.payload.buffer], index, memory_type(self.element_type))
        bytes_ = f.select(mask, f.const(lt.I32, CHUNK_BYTES), f.const(lt.I32, 0))
        copy_chunk(f, self._at(room, line, inner, is_lhs=is_lhs), source, bytes_)
        emitter.close_scope()

    def _last_chunk(self, free: IndexValue, count: int, *, is_lhs: bool) -> IndexValue:
        """Return where in the tile a chunk begins; chunks behind the end repeat the last one."""
        f = self.f
        axis, corner = self.kernel.m, self.corner[0]
        if not is_lhs:
            axis, corner = self.kernel.n, self.corner[1]
        last = f.isub(self.emitter.index(axis.extent), count)
        return f.isub(f.imin(f.iadd(corner, free), last), corner)

    # ---- products

    def zeros(self) -> list[Value]:
        """Return sums of nothing."""
        fragments = self.fragments
        blocks = self.sides[0] // fragments.rows * (self.sides[1] // COLUMNS)
        return [self.f.zero(fragments.sum)] * (blocks * self._sums_each)

    @property
    def _sums_each(self) -> int:
        """Sums of one product that a lane holds."""
        return self.fragments.rows * COLUMNS // WARP

    def _first(self, *, is_lhs: bool) -> Value:
        """Return the bytes from a room's start to the first element, or row, that this lane loads.

        `ldmatrix` loads four matrices: lanes 0 to 7 have the addresses of the rows of the first,
        and so on. Of the lhs they are two by two along m, then k; of the rhs along k, then n.
        """
        f, operand = self.f, self.operands[is_lhs]
        corner = self.warp_corner[0 if is_lhs else 1]
        if self.element_type is F64:
            free: IndexValue = f.idiv(self.lane, 4)
            step: IndexValue = f.irem(self.lane, 4)
        else:
            row, matrix = f.irem(self.lane, 8), f.idiv(self.lane, 8)
            low, high = f.imul(f.irem(matrix, 2), 8), f.imul(f.idiv(matrix, 2), 8)
            per_chunk = CHUNK_BYTES // operand.size
            along_free, along_k = (low, high) if is_lhs else (high, low)
            along_k = f.imul(f.idiv(along_k, 8), per_chunk)
            if operand.feed.along_k:
                free, step = f.iadd(along_free, row), along_k
            else:
                free, step = along_free, f.iadd(along_k, row)
        free = f.iadd(free, corner)
        line, inner = (free, step) if operand.feed.along_k else (step, free)
        offset = f.iadd(f.imul(line, operand.pitch), f.imul(inner, operand.size))
        return f.as_value(f.iadd(offset, self._start(is_lhs=is_lhs)))

    def multiply(self, room: Value, sums: list[Value]) -> list[Value]:
        """Add the products of the tiles in shared memory."""
        f, fragments = self.f, self.fragments
        bases = {
            is_lhs: f.gep(self.base, f.iadd(room, first)) for is_lhs, first in self.firsts.items()
        }
        sums = list(sums)
        for step in range(0, self.depth, fragments.depth):
            lhs, rhs = (self._load(bases[is_lhs], step, is_lhs=is_lhs) for is_lhs in (True, False))
            at = 0
            for rows in lhs:
                for columns in rhs:
                    end = at + self._sums_each
                    sums[at:end] = multiply_fragments(
                        f, fragments.name, [*rows, *columns], sums[at:end]
                    )
                    at = end
        return sums

    def _load(self, base: Value, step: int, *, is_lhs: bool) -> list[list[Value]]:
        """Return this warp's fragments of an operand, at a step along k."""
        f, fragments, operand = self.f, self.fragments, self.operands[is_lhs]
        side = self.sides[0 if is_lhs else 1]
        if self.element_type is F64:
            starts = range(0, side, fragments.rows)
            return [[f.load(lt.F64, f.gep(base, operand.offset(n, step)))] for n in starts]
        found: list[list[Value]] = []
        for start in range(0, side, 16):
            address = f.gep(base, operand.offset(start, step))
            words = load_matrices(f, address, transposed=not operand.feed.along_k)
            words = [
                word if fragments.word is lt.I32 else f.bitcast(word, fragments.word)
                for word in words
            ]
            found += [words] if is_lhs else [words[:2], words[2:]]
        return found

    # ---- sums

    def store(self, sums: Sequence[Value]) -> None:
        """Store the sums of this warp: through shared memory, so that lanes are along columns."""
        f, fragments = self.f, self.fragments
        each = self.sides[1] // COLUMNS * self._sums_each
        own = f.gep(self.base, f.imul(self.warp, self.sum_bytes))
        row, pair = f.idiv(self.lane, 4), f.imul(f.irem(self.lane, 4), 2)
        columns = self.sides[1]
        at_once = WARP // columns
        # All warps have read their operands: each step along k ends at a barrier.
        for block, start in enumerate(range(0, self.sides[0], fragments.rows)):
            for number, total in enumerate(sums[block * each : (block + 1) * each]):
                tile, which = divmod(number, self._sums_each)
                line = f.iadd(row, which // 2 * 8)
                column = f.iadd(pair, tile * COLUMNS + which % 2)
                f.store(total, self._sum_at(own, line, column))
            warp_barrier(f)

            def one(line: Value, start: int = start) -> None:
                mine = f.iadd(line, f.idiv(self.lane, columns))
                column = f.irem(self.lane, columns)
                total = f.load(fragments.sum, self._sum_at(own, mine, column))
                row = f.iadd(f.iadd(self.warp_corner[0], start), mine)
                self.store_sum(row, f.iadd(self.warp_corner[1], column), total)

            f.for_range(fragments.rows, one, step=at_once)
            warp_barrier(f)

    def _sum_at(self, own: Value, line: IndexValue, column: IndexValue) -> Value:
        f = self.f
        return f.gep(own, f.iadd(f.imul(line, self.sum_pitch), column), self.fragments.sum)

# SPDX-License-Identifier: Apache-2.0
"""How an attention kernel runs: blocks of queries and keys, and the keys that rows see.

A unit is a block of query rows of one batch element. It loops over blocks of keys. The scores of a
block are stored transposed, with lanes along the queries: so a fold along the keys is elementwise,
keys and values are read in place, and the powers are columns of the second product's lhs.

Causal masks and windows compare positions (`iota <= iota` in HLO): row m sees the keys
`m + low <= n <= m + high`. The scores of other keys are a constant: minus infinity, or a large
negative number in some frameworks. Keys that no row of a block sees need not be multiplied: their
powers are 0 as soon as each row has a score far above the constant (`Bounds.floor`). Whether that
holds is tested when the kernel runs, and so is whether the values of these keys are finite, since
0 times infinity is NaN.

bf16 is multiplied in tiles where the target has them (`cpu.emit.attention.tiles`): operands and
powers are packed as words of two, and sums lie transposed as scores do.

Invariants: blocks depend on sizes and vectors alone, and so does the order of sums. Outside of the
bounds every score is at most `floor`, whatever the operands hold.
"""

from __future__ import annotations

import math

from ingot.analysis.library import VECTORS
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.hlo.dtype import BF16, PRED
from ingot.hlo.opset.elementwise import INVERSE, SWAPPED, CompareAttributes
from ingot.kernel.contraction.micro_blocks import (
    BlockMaker,
    MicroBlock,
    heights_behind,
    shared_heights,
)
from ingot.kernel.contraction.operands import assumed, cell_bits, is_plain, stride
from ingot.kernel.contraction.register_block import most_rows
from ingot.kernel.contraction.schedule import CHUNK_PRODUCTS
from ingot.kernel.contraction.unit_blocks import even
from ingot.kernel.expr import Expr, axis_names, walk
from ingot.kernel.index_math import MIN_INDEX_BITS, coefficient
from ingot.kernel.ir import AttentionKernel, Axis
from ingot.llvm.machine_model import Vectors
from ingot.llvm.math.called import RETURNED_REGISTERS
from ingot.support.records import record, replace

UNDERFLOW = {"f64": 800.0}
OTHER_UNDERFLOW = 200.0
"""By how much a score must lie below the greatest of its row for its power to be 0."""


@record
class Bounds:
    """Keys of row m: from the greatest of `m + low` to the least of `m + high`.

    Attributes:
        low, high: offsets of the first and of the last key from the row's number.
        floor: other scores are this at most.
    """

    low: tuple[int | Dim, ...] = ()
    high: tuple[int | Dim, ...] = ()
    floor: float = -math.inf

    def and_also(self, other: Bounds) -> Bounds:
        """Return the keys inside of both."""
        floor = max(self.floor, other.floor)
        return Bounds(self.low + other.low, self.high + other.high, floor)

    def __bool__(self) -> bool:
        """Whether they leave any key out."""
        return bool(self.low or self.high)


def key_bounds(kernel: AttentionKernel) -> Bounds:
    """Return the bounds of the keys that the mask of an attention kernel leaves."""
    found = Bounds()
    score = kernel.scores
    while score.op == "select":
        seen, on_true, on_false = score.args
        if on_false.op == "constant":
            inside, score, masked = _where(kernel, seen, holds=True), on_true, on_false
        elif on_true.op == "constant":
            inside, score, masked = _where(kernel, seen, holds=False), on_false, on_true
        else:
            break
        if inside:
            floor = float(masked.payload.value)
            found = found.and_also(Bounds(inside.low, inside.high, floor))
    return found if found.floor < 0 else Bounds()


def least_seen(kernel: AttentionKernel, bounds: Bounds) -> float:
    """Return what the greatest score of a row must exceed for keys outside to have no weight."""
    return bounds.floor + UNDERFLOW.get(kernel.scores.dtype.name, OTHER_UNDERFLOW)


def _where(kernel: AttentionKernel, seen: Expr, *, holds: bool) -> Bounds:
    """Return the bounds that follow from a condition, or from its opposite."""
    found = Bounds()
    stack = [(seen, holds)]
    while stack:
        item, is_true = stack.pop()
        if item.op == "not":
            stack.append((item.args[0], not is_true))
        elif item.op == ("and" if is_true else "or"):
            stack.extend((arg, is_true) for arg in reversed(item.args))
        elif item.op == "compare":
            found = found.and_also(_comparison(kernel, item, holds=is_true))
    return found


def _comparison(kernel: AttentionKernel, item: Expr, *, holds: bool) -> Bounds:
    """Return the bounds that follow from a comparison of positions, or from its opposite."""
    given: CompareAttributes = item.payload
    direction = given.direction if holds else INVERSE[given.direction]
    left, right = map(_position, item.args)
    if left is None or right is None:
        return Bounds()
    return _compared(kernel, left - right, direction)


def _position(value: Expr) -> int | Dim | None:
    """Return the position that an integer is, if it is one and cannot wrap around."""
    while value.op == "convert" and value.dtype.is_integer and value.dtype.bits >= MIN_INDEX_BITS:
        if not value.dtype.is_signed:
            return None
        (value,) = value.args
    if value.op == "constant" and value.dtype.is_integer:
        return int(value.payload.value)
    return value.payload if value.op == "index" and not value.args else None


def _compared(kernel: AttentionKernel, difference: int | Dim, direction: str) -> Bounds:
    """Return the bounds of n that `difference` compared with 0 means."""
    m, n = kernel.m.name, kernel.n.name
    along = (coefficient(difference, m), coefficient(difference, n))
    if along == (1, -1):
        difference, direction = difference * -1, SWAPPED[direction]
    elif along != (-1, 1):
        return Bounds()
    # n - m + rest, compared with 0.
    offset = (difference - Dim.symbol(n) + Dim.symbol(m)) * -1
    if axis_names(offset):
        return Bounds()
    low = {"GE": (offset,), "GT": (offset + 1,), "EQ": (offset,)}
    high = {"LE": (offset,), "LT": (offset - 1,), "EQ": (offset,)}
    return Bounds(low.get(direction, ()), high.get(direction, ()))


MAX_QUERIES = 64
"""Rows of queries of a unit at most: operands, scores and sums stay in the L1 and L2 cache."""

MAX_TILE_QUERIES = 128
"""The same for products of tiles: each unit packs all keys and values, which takes as long as 64
rows multiply. Speed beside PyTorch's kernel with 2048 queries in heads of 128 (2026-12-01): 0.75
with 64 rows, 0.95 with 128, 0.94 with 256; heads of 64 are as fast with each."""

MIN_UNITS = 8
"""Units of `MAX_TILE_QUERIES` rows that threads share well; where there would be fewer, units have
`MAX_QUERIES`. By reasoning: two threads that take eight units end within an eighth of the time."""

TILE_ROWS = 32
"""Rows and columns of two by two tiles, and elements of a step along k."""

TILE_FACTORS = 2
"""Elements of a word."""

MAX_KEYS = 140
"""Keys of a block, about: scores of more leave the L1 cache before they are read again."""


@record
class AttentionSchedule:
    """The numbers of an attention kernel.

    Attributes:
        lanes: lanes of a vector of sums.
        columns: queries side by side in a register block of scores.
        rows: queries of a unit, whole `columns`.
        keys: keys of a block, whole register blocks.
        low, tall: the unit's rows as register blocks of the second product: those of `low + 1` rows
            come first, `tall` of them.
        units, grain, chunks: units, how many a chunk runs, and chunks.
        bounds: the keys that a mask of positions leaves.
        depth, width: elements of a row of packed keys or queries, and of packed values or sums.
        transposes_queries: whether loads of queries walk along their depth, and squares of them are
            transposed in registers as they are packed.
        together: rows whose softmax is computed at once: as many vectors as a call of `exp` takes.
        masks: loads of the scores that lie along the keys: they are read so, and transposed.
        reads_keys, reads_values: whether they are read where they lie, not packed.
        scores: the register blocks of the first product by height: of whole blocks of keys, then of
            keys left over, high ones first.
        sums: those of the second product, in tall and in low rows: of `columns`, then of columns
            left over if there are any.
        has_tiles: whether both products are of tiles: `keys` and `width` are whole blocks of
            `TILE_ROWS`, `depth` counts words, all operands are packed, and there are no register
            blocks.
    """

    lanes: int
    columns: int
    rows: int
    keys: int
    low: int
    tall: int
    units: int | Dim
    grain: int
    chunks: int | Dim
    bounds: Bounds
    depth: int
    width: int
    transposes_queries: bool
    together: int
    masks: tuple[Expr, ...]
    reads_keys: bool
    reads_values: bool
    scores: tuple[MicroBlock, ...]
    sums: tuple[tuple[MicroBlock, ...], ...]
    has_tiles: bool = False


def schedule_attention(kernel: AttentionKernel, vectors: Vectors) -> AttentionSchedule:
    """Return the schedule for a target's vectors."""
    lanes = vectors.lanes(cell_bits(kernel.accumulate), 1)
    columns = lanes * VECTORS
    has_tiles = _suits_tiles(kernel, vectors)
    m, n = assumed(kernel.m.extent), assumed(kernel.n.extent)
    rows = even(m, _most_queries(kernel, m, has_tiles=has_tiles), columns)
    most = max(1, most_rows(VECTORS, vectors))
    keys = even(n, MAX_KEYS, most)
    row_blocks = ceil_div(rows, most)
    low, tall = divmod(rows, row_blocks)
    units = kernel.batch.extent * ceil_div(kernel.m.extent, rows)
    products = rows * n * (assumed(kernel.k.extent) + assumed(kernel.e.extent))
    grain = max(1, CHUNK_PRODUCTS // max(1, products))
    bounds = key_bounds(kernel)
    # Bounds cut keys anywhere.
    behind = heights_behind(None if bounds else kernel.n.extent, most)
    reads_values = _lies_along(kernel, kernel.values, kernel.e)
    of_scores = BlockMaker(kernel.accumulate, lanes, columns)
    of_sums = BlockMaker(
        kernel.accumulate, lanes, None, not reads_values or _knows_step_of_values(kernel)
    )
    shared = shared_heights(kernel.accumulate, lanes, vectors)

    def blocks(maker: BlockMaker, heights: tuple[int, ...], width: int) -> tuple[MicroBlock, ...]:
        is_wide = ceil_div(width, lanes) == VECTORS
        return tuple(maker.block(h, width, is_shared=is_wide and h in shared) for h in heights)

    width = kernel.e.known_extent
    widths = (columns, width % columns) if width % columns else (columns,)
    of_columns = [blocks(of_sums, (low + 1, low), each) for each in widths]
    found = AttentionSchedule(
        lanes=lanes,
        columns=columns,
        rows=rows,
        keys=keys,
        low=low,
        tall=tall,
        units=units,
        grain=grain,
        chunks=ceil_div(units, grain),
        bounds=bounds,
        depth=round_up(kernel.k.known_extent, lanes),
        width=round_up(width, lanes),
        transposes_queries=_walks(kernel),
        together=next(n for n in (lanes * RETURNED_REGISTERS, 2 * lanes, lanes) if rows % n == 0),
        masks=tuple(item for item in walk((kernel.scores,)) if _is_mask(kernel, item)),
        reads_keys=_lies_along(kernel, kernel.rhs, kernel.k),
        reads_values=reads_values,
        scores=blocks(of_scores, (most, *behind), columns),
        sums=tuple(zip(*of_columns, strict=True)),
    )
    return _in_tiles(kernel, found, n) if has_tiles else found


def _most_queries(kernel: AttentionKernel, m: int, *, has_tiles: bool) -> int:
    """Return the rows of a unit at most, of `m` rows a batch element."""
    units = assumed(kernel.batch.extent) * ceil_div(m, MAX_TILE_QUERIES)
    return MAX_TILE_QUERIES if has_tiles and units >= MIN_UNITS else MAX_QUERIES


def _suits_tiles(kernel: AttentionKernel, vectors: Vectors) -> bool:
    """Whether all factors are bf16, and the target rounds to them and multiplies tiles of them."""
    factors = (kernel.lhs, kernel.rhs, kernel.values)
    has_tiles = vectors.has_bf16_tiles and vectors.has_bf16_pairs
    return has_tiles and all(item.dtype is BF16 for item in factors)


def _in_tiles(kernel: AttentionKernel, found: AttentionSchedule, n: int) -> AttentionSchedule:
    """Return the schedule of products of tiles, with the units of `found`."""
    return replace(
        found,
        keys=even(n, MAX_KEYS // TILE_ROWS * TILE_ROWS, TILE_ROWS),
        depth=round_up(kernel.k.known_extent, TILE_ROWS) // TILE_FACTORS,
        width=round_up(kernel.e.known_extent, TILE_ROWS),
        reads_keys=False,
        reads_values=False,
        scores=(),
        sums=(),
        has_tiles=True,
    )


def _knows_step_of_values(kernel: AttentionKernel) -> bool:
    """Whether the values of a key lie a known number of elements behind those of the one before."""
    return isinstance(stride(kernel.values.payload.index, kernel.n.name), int)


def _walks(kernel: AttentionKernel) -> bool:
    """Whether the loads of the queries walk along their depth."""
    names, queries = (kernel.m.name, kernel.k.name), kernel.lhs
    if queries.op != "load":
        return False
    along = [stride(queries.payload.index, name) for name in names]
    return along[1] == 1 and along[0] != 1


def _is_mask(kernel: AttentionKernel, item: Expr) -> bool:
    """Whether a load of the scores is of rows of keys, in elements that sums hold."""
    if item.op != "load" or item.args:
        return False
    element, widest = item.dtype, kernel.accumulate
    fits = element is PRED or (element.is_float and element.bits <= widest.bits)
    steps = [stride(item.payload.index, axis.name) for axis in (kernel.m, kernel.n)]
    return fits and steps[1] == 1 and steps[0] not in (0, 1)


def _lies_along(kernel: AttentionKernel, operand: Expr, axis: Axis) -> bool:
    """Whether keys or values can be read where they lie: dense along `axis`."""
    if not is_plain(operand, (kernel.n.name, axis.name), kernel.accumulate):
        return False
    return axis.extent == 1 or stride(operand.payload.index, axis.name) == 1

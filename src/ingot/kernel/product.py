"""Plain products: contractions that need no code of their own.

A product of two operands that lie in memory with constant steps is the same computation at every
size. So it runs in a driver that all such products share: extents, steps and blocks are numbers
that the host program passes (`PARAMETERS`), and the micro-kernels are addresses. Compiling a plain
product is then nothing but choosing those numbers; where more follows than storing the sums, it is
an epilogue of the kernel's own.

Rows are cut into blocks of two heights that differ by one, `tall` and `low`, so that no block is
left over that would use few registers.

A large product whose lhs has *crowded* rows, which lie a multiple of 4096 bytes apart and so share
one set of the L1 cache, runs with both operands packed: the whole rhs once, by a phase before the
products (`Form.ahead`), and the rows of each unit beside each other where they are multiplied.

Invariant: each sum adds its products in order of k, as in every other contraction kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, F64, DType
from ingot.kernel.contraction_schedule import (
    DOTS,
    ContractionSchedule,
    cell_bits,
    has_plain_lhs,
    is_plain,
    schedule_contraction,
    stores_sums,
    stride,
)
from ingot.kernel.ir import Axis, ContractionKernel
from ingot.kernel.numbers import Numbered
from ingot.kernel.product_blocks import (
    MIN_ROWS_AHEAD,
    Blocks,
    blocks_ahead,
    round_up,
    scheduled_blocks,
)
from ingot.kernel.register_block import VECTORS, block_cycles, least_cycles, most_rows
from ingot.kernel.schedule import Vectors

ELEMENTS = (F32, F64)
MIN_VECTOR_BITS = 256
"""From here on rows end in masked vectors."""

MAX_LOSS = 1.05
"""A register block made for the extents is taken instead where it saves more than that."""

CROWDED_ROW, CROWDED_ROWS_LESS = 4096, 2
"""Rows of the lhs that lie a multiple of so many bytes apart share one set of the L1 cache, which
then has no room for a whole register block of them."""

PARAMETERS = (
    *("lhs_batch", "rhs_batch", "out_batch"),
    *("lhs_row", "lhs_step", "rhs_step", "out_row", "block_row"),
    *("n", "k", "n_block", "k_block", "panel_depth"),
    *("low_rows", "tall_blocks", "row_blocks", "unit_row_blocks", "units", "grain"),
    *("packed_columns", "packed_lhs_row"),
)
"""Numbers of a product, in the order of its env.

`rhs_step` goes from k to k, or from n to n in a transposed rhs; `out_row` goes from row to row of
sums in a row block, `block_row` from row block to row block, for each row (0 where an epilogue
takes each row block's sums before the next). A unit has `unit_row_blocks` row
blocks and `n_block` columns; the first `tall_blocks` row blocks have `low_rows` + 1 rows. Where the
rhs is packed ahead, each piece of k has `packed_columns` columns in whole panels, and rows of the
packed lhs are `packed_lhs_row` elements apart.
"""

Placement = Literal["direct", "packed", "transposed"]


@dataclass(frozen=True, slots=True)
class Form:
    """What products must have in common to share a driver.

    Attributes:
        element: type of operands and sums.
        lanes: lanes of one vector.
        rhs: how the rhs is read; see `ContractionSchedule`.
        is_dense: whether the lhs has step 1 along k.
        ahead: whether the rhs is packed by a phase of its own, and the lhs too.
    """

    element: DType
    lanes: int
    rhs: Placement
    is_dense: bool
    ahead: bool = False

    @property
    def name(self) -> str:
        """A name that says all of it."""
        lhs = "dense" if self.is_dense else "across"
        when = "_ahead" if self.ahead else ""
        return f"{self.element.name}x{self.lanes}_{lhs}_{self.rhs}{when}"


@dataclass(frozen=True, slots=True)
class Product(Numbered):
    """A plain product.

    Attributes:
        form: what is compiled for it.
        operands: buffer numbers of lhs and rhs.
        result: buffer number of the result, None where an epilogue takes the sums.
        blocks: how it is cut.
        has_rest: whether columns are left over behind the whole register blocks.
    """

    NAMES: ClassVar[tuple[str, ...]] = PARAMETERS

    form: Form
    operands: tuple[int, int]
    result: int | None
    blocks: Blocks
    has_rest: bool


def heights_of(vectors: Vectors) -> range:
    """Return the heights that blocks of a target's products have."""
    most = most_rows(VECTORS, vectors)
    return range((most - CROWDED_ROWS_LESS) // 2, most + 1)


def plain_product(kernel: ContractionKernel, vectors: Vectors) -> Product | None:
    """Return how the shared driver runs a contraction, None if that cannot or would be slow."""
    steps = _operand_steps(kernel, vectors)
    if steps is None:
        return None
    sums = _result_steps(kernel)
    lanes = vectors.lanes(cell_bits(kernel.accumulate), 1)
    columns = VECTORS * lanes
    rows = most_rows(VECTORS, vectors)
    schedule = schedule_contraction(kernel, vectors, (rows, columns))
    is_crowded = steps["lhs_row"] * cell_bits(kernel.accumulate) // 8 % CROWDED_ROW == 0
    m, n, k = _sizes(kernel)
    ahead = (
        is_crowded
        and m >= MIN_ROWS_AHEAD
        and steps["lhs_step"] == 1
        and kernel.batch.extent == 1
        and schedule.rhs in ("packed", "transposed")
    )
    if is_crowded and not ahead:
        rows -= CROWDED_ROWS_LESS
        schedule = schedule_contraction(kernel, vectors, (rows, columns))
    rhs_row, rhs_column = _strides(kernel.rhs.payload.index, kernel.k, kernel.n)
    step = _rhs_step(schedule, rhs_row, rhs_column)
    if schedule.swapped or step is None:
        return None
    row_blocks = -(-m // rows)
    low, tall = divmod(m, row_blocks)
    if _cycles((low, tall, row_blocks), n, lanes) > MAX_LOSS * least_cycles(m, n, lanes, vectors):
        return None
    depth = schedule.k_block or k
    blocks = scheduled_blocks(schedule, rows)
    if ahead:
        cell_bytes = cell_bits(kernel.accumulate) // 8
        blocks = blocks_ahead(
            (m, n, k), row_blocks, lanes, depth, cell_bytes, has_epilogue=sums is None
        )
    if sums is None:
        is_kept = ahead or depth < k
        sums = {"out_batch": 0, "out_row": blocks.n_block}
        sums["block_row"] = blocks.n_block if is_kept else 0
        result = None
    else:
        result = kernel.stores[0].buffer
    values = {
        **steps,
        **sums,
        "rhs_step": step,
        "n": n,
        "k": k,
        "n_block": blocks.n_block,
        "k_block": depth,
        "panel_depth": round_up(depth, lanes),
        "low_rows": low,
        "tall_blocks": tall,
        "row_blocks": row_blocks,
        "unit_row_blocks": blocks.unit_row_blocks,
        "units": blocks.units,
        "grain": blocks.grain,
        "packed_columns": blocks.packed_columns,
        "packed_lhs_row": blocks.packed_lhs_row,
    }
    assert schedule.rhs != "dots", "dot products have no step"
    assert schedule.rhs != "packed dots", "patches are not plain"
    return Product(
        tuple(values[name] for name in PARAMETERS),
        Form(kernel.accumulate, lanes, schedule.rhs, steps["lhs_step"] == 1, ahead),
        (kernel.lhs.payload.buffer, kernel.rhs.payload.buffer),
        result,
        blocks,
        n % columns > 0,
    )


def _operand_steps(kernel: ContractionKernel, vectors: Vectors) -> dict[str, int] | None:
    """Return the operands' steps that no schedule changes, None if the product is not plain."""
    if not _is_candidate(kernel, vectors):
        return None
    lhs, rhs = kernel.lhs.payload.index, kernel.rhs.payload.index
    lhs_batch, lhs_row, lhs_step = _strides(lhs, kernel.batch, kernel.m, kernel.k)
    rhs_batch, rhs_row, rhs_column = _strides(rhs, kernel.batch, kernel.k, kernel.n)
    is_whole = lhs == _index(kernel, (lhs_batch, lhs_row, 0, lhs_step)) and rhs == _index(
        kernel, (rhs_batch, 0, rhs_column, rhs_row)
    )
    if not is_whole:
        return None
    steps = {"lhs_batch": lhs_batch, "rhs_batch": rhs_batch}
    return {**steps, "lhs_row": lhs_row, "lhs_step": lhs_step}


def _result_steps(kernel: ContractionKernel) -> dict[str, int] | None:
    """Return the steps of the result, None where the sums are not it or lie otherwise."""
    if not stores_sums(kernel):
        return None
    index = kernel.stores[0].index
    batch, row, column = _strides(index, kernel.batch, kernel.m, kernel.n)
    if index != _index(kernel, (batch, row, column, 0)) or column != 1:
        return None
    return {"out_batch": batch, "out_row": row, "block_row": row}


def _is_candidate(kernel: ContractionKernel, vectors: Vectors) -> bool:
    if kernel.accumulate not in ELEMENTS or vectors.bits < MIN_VECTOR_BITS:
        return False
    extents = [axis.extent for axis in (kernel.batch, kernel.m, kernel.n, kernel.k)]
    if not all(isinstance(extent, int) and extent > 0 for extent in extents):
        return False
    m, n, _ = _sizes(kernel)
    if m < heights_of(vectors)[0] or n < 2:
        return False
    names = (kernel.n.name, kernel.k.name)
    return (
        not kernel.symbols
        and has_plain_lhs(kernel)
        and is_plain(kernel.rhs, names, kernel.accumulate)
    )


def _sizes(kernel: ContractionKernel) -> tuple[int, int, int]:
    m, n, k = (
        axis.extent for axis in (kernel.m, kernel.n, kernel.k) if isinstance(axis.extent, int)
    )
    return m, n, k


def _strides(index: int | Dim, *axes: Axis) -> tuple[int, ...]:
    """Return the steps along axes; -1, which no operand has, where a step is not constant."""
    steps = [stride(index, axis.name) for axis in axes]
    return tuple(step if isinstance(step, int) else -1 for step in steps)


def _index(kernel: ContractionKernel, steps: tuple[int, int, int, int]) -> int | Dim:
    total: int | Dim = 0
    for axis, step in zip((kernel.batch, kernel.m, kernel.n, kernel.k), steps, strict=True):
        if axis.extent != 1 and step:
            total = total + Dim.symbol(axis.name) * step
    return total


def _rhs_step(schedule: ContractionSchedule, row: int, column: int) -> int | None:
    """Return the step of the rhs that is not 1, None where neither is."""
    if schedule.rhs == "transposed":
        return column if row == 1 else None
    return row if schedule.rhs not in DOTS and column == 1 else None


def _cycles(blocks: tuple[int, int, int], n: int, lanes: int) -> float:
    """Return the cycles of one k over all register blocks."""
    low, tall, count = blocks
    panels = -(-n // (VECTORS * lanes))
    of_low, of_tall = block_cycles(low, VECTORS), block_cycles(low + 1, VECTORS)
    return panels * (tall * of_tall + (count - tall) * of_low)

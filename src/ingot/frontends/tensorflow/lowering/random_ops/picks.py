# SPDX-License-Identifier: Apache-2.0
"""Random picks with TensorFlow's own numbers: shuffles, and draws from categories.

Both take the words of the generator one after the other, as `SimplePhilox` does. Draws from
categories start anew for each share of rows that a thread of TensorFlow takes (`worker_shares`).
Where sizes are open, all rows are one share, as they are in TensorFlow for small batches.

Source: TensorFlow's `kernels/random_shuffle_op.cc`, `multinomial_op.cc`,
`stateless_random_ops_v2.cc`.
"""

from __future__ import annotations

import math

from ingot.frontends.building.indexing import row_at, take, with_row
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.random_ops.random import (
    GENERATOR_SKIP,
    explicit_state,
    state_in_node,
)
from ingot.frontends.tensorflow.lowering.random_ops.worker_shares import (
    rows_per_share,
    worker_threads,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F64, S32, S64, U32
from ingot.hlo.instruction import Instruction

_PER_BLOCK = 4


def _shuffled(op: Op, state: State) -> Value:
    b, x = op.b, op.tensor(0)
    return x if x.shape.rank == 0 else take(b, x, shuffled_order(b, state, x.shape.dims[0]))


def shuffled_order(b: TensorBuilder, state: State, rows: Size) -> Instruction:
    """Return which row comes where: row i is swapped with row i + word % (rows - i), in order.

    What comes to index i stays there, so it goes to a result of its own: with one array, each step
    would read what it has written, and copy the array before.
    """
    numbers = b.iota_of(S32, (rows,), 0)
    if rows == 0:
        return numbers
    words = philox.bits32(b, state, rows)
    start = [b.constant(0, S32), words, numbers, numbers]
    *_, order = b.loop(start, _goes_on, _swap)
    return order


def _goes_on(b: TensorBuilder, state: list[Instruction]) -> Instruction:
    rows = b.convert_to(b.size(state[2].shape.dims[0]), S32)
    return b.compare(state[0], rows, direction="LT")


def _swap(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
    index, words, left, order = state
    count = b.subtract(b.convert_to(b.size(left.shape.dims[0]), S32), index)
    word = row_at(b, words, index)
    other = b.add(index, b.convert_to(b.remainder(word, b.convert_to(count, U32)), S32))
    order = with_row(b, order, index, row_at(b, left, other))
    left = with_row(b, left, other, row_at(b, left, index))
    return [b.binary("add", index, 1), words, left, order]


def _shuffle(op: Op) -> Value:
    dims = op.dims(0)
    drawn: Size = dims[0] - 1 if dims else 0
    if isinstance(drawn, int) and drawn <= 0:
        return op.values[0]
    return _shuffled(op, state_in_node(op, dim_math.floordiv(drawn + 3, _PER_BLOCK)))


def _stateless_shuffle(op: Op) -> Value:
    return _shuffled(op, explicit_state(op))


def _picks(op: Op, state: State) -> Value:
    """Take logits `[batch, classes]`, number of samples: the first class whose sum is above."""
    b, logits = op.b, op.tensor(0)
    batch, classes = logits.shape.dims
    samples = op.size(1, "number of samples")
    wide = b.convert_to(logits, F64)
    finite = b.emit("is-finite", wide)
    lowest = b.like(float("-inf"), wide.shape)
    most = b.reduced("maximum", b.select(finite, wide, lowest), (1,), keep=True)
    powers = b.exponential(b.binary("subtract", wide, most))
    powers = b.select(finite, powers, b.zeros(wide.shape))
    sums = scan(b, powers, 1, lambda inner, x, y: inner.add(x, y), 0)
    total = b.sliced(sums, 1, classes - 1, classes)
    drawn = _drawn(b, state, batch, samples, classes)
    aims = b.multiply(drawn, b.spread(total, (batch, samples)))
    dims = (batch, samples, classes)
    below = b.compare(b.spread(sums, dims, (0, 2)), b.spread(aims, dims, (0, 1)), direction="LE")
    return b.reduced("add", b.convert_to(below, op.result()), (2,))


def _drawn(b: TensorBuilder, state: State, rows: Size, samples: Size, classes: Size) -> Instruction:
    """Return the uniform numbers of the picks, `f64[rows, samples]`."""
    known = [size for size in (rows, samples, classes) if isinstance(size, int)]
    if len(known) == 3 and 0 not in known:
        share = rows_per_share(known[0], _cost_of_row(*known[1:]), worker_threads())
        if share < known[0]:
            return _drawn_in_shares(b, state, (known[0], known[1]), share)
    return b.reshape_to(philox.uniform(b, state, rows * samples, F64), (rows, samples))


def _cost_of_row(samples: int, classes: int) -> int:
    """Return how many cycles the kernel takes a row for."""
    return int(50 * (samples * math.log(classes) / math.log(2) + classes))


def _drawn_in_shares(
    b: TensorBuilder, state: State, dims: tuple[int, int], share: int
) -> Instruction:
    """Return uniform numbers `f64[rows, samples]`, one share of rows after the other.

    A share that begins at row r skips r * (samples + 3) // 4 blocks of two numbers.
    """
    rows, samples = dims
    row = b.iota_of(S64, (rows,), 0)
    start = b.subtract(row, b.binary("remainder", row, share))
    skipped = b.binary("divide", b.binary("multiply", start, samples + 3), _PER_BLOCK)
    first = b.binary("multiply", b.subtract(row, start), samples)
    first = b.add(b.binary("multiply", skipped, 2), first)
    starts = range(0, rows, share)[-2:]
    ends = [at * (samples + 3) // _PER_BLOCK * 2 + min(share, rows - at) * samples for at in starts]
    numbers = philox.uniform(b, state, max(ends), F64)
    return take(b, numbers, b.add(b.spread(first, dims, (0,)), b.iota_of(S64, dims, 1)))


def _multinomial(op: Op) -> Value:
    samples = op.size(1, "number of samples")
    rounded = dim_math.floordiv(samples + 3, _PER_BLOCK) * _PER_BLOCK
    return _picks(op, state_in_node(op, op.dims(0)[0] * rounded * 2 * GENERATOR_SKIP))


def _stateless_multinomial(op: Op) -> Value:
    return _picks(op, philox.state_of_seed(op.b, op.tensor(2)))


RULES: dict[str, Rule] = {
    "Multinomial": _multinomial,
    "RandomShuffle": _shuffle,
    "StatelessMultinomial": _stateless_multinomial,
    "StatelessShuffle": _stateless_shuffle,
}

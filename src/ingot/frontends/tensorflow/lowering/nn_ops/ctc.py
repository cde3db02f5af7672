# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding for connectionist temporal classification: labels from scores by time.

Each time step says its best class. Blanks are dropped, and so are repetitions where they are
merged; what is left of each sequence is a row of a sparse matrix, as large as the data says.
"""

from __future__ import annotations

from ingot.frontends.building.extremes import arg_extreme
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.array_ops.data_sizes import coordinates, positions
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def _comparable(op: Op, scores: Instruction) -> Instruction:
    """Return the scores without NaN, which is above no class before it."""
    b = op.b
    later = b.compared("GT", b.iota_of(S64, scores.shape.dims, 2), 0)
    nan = b.compare(scores, scores, direction="NE")
    lowest = b.like(float("-inf"), scores.shape)
    return b.select(b.and_(nan, later), lowest, scores)


def _greedy(op: Op) -> tuple[Value, ...]:
    """Indices, values and sizes of the sparse labels, and the negated sum of the best scores."""
    b = op.b
    if op.rank(0) != 3 or op.rank(1) != 1:
        raise op.error("scores that are not [time, batch, classes] have no lowering")
    scores = _comparable(op, b.transposed(op.tensor(0), (1, 0, 2)))
    batch, time, classes = scores.shape.dims
    if not b.same(op.dims(1)[0], batch):
        raise op.mismatch(0, 1)
    best = b.convert_to(arg_extreme(b, scores, 2, True), S64)
    fit = b.reduced("and", b.compared("LE", op.tensor(1), b.scalar(time, op.dtype(1))), (0,))
    emit_assertion(b, fit, f"sequence_length <= {time}", "FAILED_PRECONDITION")
    lengths = b.spread(b.convert_to(op.tensor(1), S64), best.shape.dims, (0,))
    runs = b.compare(b.iota_of(S64, best.shape.dims, 1), lengths, direction="LT")

    blank = int(op.attribute("blank_index", -1))
    silent = b.scalar(classes + blank if blank < 0 else blank, S64)
    kept = b.and_(runs, b.compared("NE", best, b.spread(silent, best.shape.dims)))
    if op.attribute("merge_repeated", False):
        before = b.shifted(best, 1, 1, b.constant(-1, S64))
        kept = b.and_(kept, b.compare(best, before, direction="NE"))

    whole = (batch * time,)
    found = positions(op, b.reshape_to(kept, whole))
    counts = scan(b, b.convert_to(kept, S64), 1, lambda b, x, y: b.add(x, y), 0)
    index = b.binary("subtract", take(b, b.reshape_to(counts, whole), found), 1)
    row = coordinates(b, found, (batch, time))[0]
    (count,) = found.shape.dims
    indices = b.concatenated([row, b.reshape_to(index, (count, 1))], 1)
    longest = b.reduced("maximum", b.reduced("add", b.convert_to(kept, S64), (1,)), (0,))
    ends = [b.size(batch), b.maximum(longest, b.constant(0, S64))]
    sizes = b.concatenated([b.reshape_to(end, (1,)) for end in ends], 0)

    highest = b.reduced("maximum", scores, (2,))
    total = b.summed(b.select(runs, highest, b.zeros(highest.shape)), (1,), keep=True)
    return indices, take(b, b.reshape_to(best, whole), found), sizes, b.negate(total)


RULES: dict[str, Rule] = {"CTCGreedyDecoder": _greedy}

# SPDX-License-Identifier: Apache-2.0
"""The loss of connectionist temporal classification, and its gradient by the scores.

A path goes through the labels of a sequence with a blank before, between and behind them: it stays,
goes one position on, or passes over a blank between different labels. Two loops over time add up
the paths, forwards to each position and back from the end; all sequences go together.

Source: TensorFlow's `kernels/ctc_loss_op.cc`, `util/ctc/ctc_loss_calculator.h`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import row_at, scatter_vectors, take_elements, with_row
from ingot.frontends.building.softmax import log_softmax
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import record

State = list[Instruction]


@record
class _Labels:
    """The labels of all sequences.

    Attributes:
        classes: of each position of a path, s32[batch, positions]: blanks at the even ones.
        counts: labels of each sequence, s32[batch].
        passes: whether a path may come to a position from the one before the last.
        missing: whether a sequence has fewer times than labels.
    """

    classes: Instruction
    counts: Instruction
    passes: Instruction
    missing: Instruction


def _labels(op: Op, blank: Instruction, lengths: Instruction) -> _Labels:
    """Read the sparse labels: as many columns as the longest sequence has, the rest blanks."""
    b, indices, values = op.b, op.tensor(1), op.tensor(2)
    batch = lengths.shape.dims[0]
    known = b.compared("GE", values, 0)
    assert_everywhere(b, known, "All labels must be nonnegative integers")
    row, column = (
        b.reshape_to(b.sliced(indices, 1, n, n + 1), values.shape.dims) for n in range(2)
    )
    given = scatter_rows(op, "add", b.zeros(lengths.shape), row, b.like(1, values.shape))
    assert_everywhere(b, b.compared("GT", given, 0), "Labels length is zero")
    longest = b.binary("add", b.reduced("maximum", column, (0,)), 1)
    columns = computed_size(op.frame, b.maximum(longest, b.constant(0, S64)))
    nothing = b.spread(blank, (batch, columns))
    # The blank and what is above end a sequence.
    values = b.minimum(values, b.spread(blank, values.shape.dims))
    labels = scatter_vectors(b, "update", nothing, indices, values)
    is_label = b.compare(labels, nothing, direction="NE")
    counts = b.reduced("add", b.convert_to(is_label, S32), (1,))
    ends = b.spread(counts, labels.shape.dims, (0,))
    is_before = b.compare(b.iota_of(S32, labels.shape.dims, 1), ends, direction="LT")
    text = "Saw a non-null label following a null label"
    assert_everywhere(b, b.compare(is_label, is_before, direction="EQ"), text)

    pairs = [b.reshape_to(item, (batch, columns, 1)) for item in (nothing, labels)]
    classes = b.reshape_to(b.concatenated(pairs, 2), (batch, 2 * columns))
    classes = b.concatenated([classes, b.spread(blank, (batch, 1))], 1)
    passes = b.compare(classes, b.shifted(classes, 1, 2, blank), direction="NE")
    position = b.iota_of(S32, classes.shape.dims, 1)
    passes = b.and_(passes, b.compared("GT", position, 2))
    return _Labels(classes, counts, passes, b.compare(counts, lengths, direction="GT"))


def _added(b: TensorBuilder, terms: list[Instruction]) -> Instruction:
    """Return the logarithm of the sum of what `terms` are logarithms of."""
    most = terms[0]
    for term in terms[1:]:
        most = b.maximum(most, term)
    base = b.select(b.is_finite(most), most, b.zeros(most.shape))
    total = b.exponential(b.subtract(terms[0], base))
    for term in terms[1:]:
        total = b.add(total, b.exponential(b.subtract(term, base)))
    return b.add(b.log(total), base)


def _forwards(b: TensorBuilder, state: State) -> State:
    """Paths to each position at time `at`, from those to the positions at the time before."""
    at, end, before, room, scores, passes, lengths = state
    none = b.scalar(float("-inf"), before.shape.dtype)
    over = b.select(passes, b.shifted(before, 1, 2, none), b.spread(none, before.shape.dims))
    paths = _added(b, [before, b.shifted(before, 1, 1, none), over])
    paths = b.add(paths, row_at(b, scores, at))
    runs = b.compare(b.spread(at, lengths.shape.dims), lengths, direction="LT")
    paths = b.select(b.spread(runs, paths.shape.dims, (0,)), paths, before)
    made = with_row(b, room, at, paths)
    return [b.binary("add", at, 1), end, paths, made, scores, passes, lengths]


def _backwards(b: TensorBuilder, state: State) -> State:
    """Paths from each position to the end, and the share of all paths that go through it."""
    left, end, behind, room, scores, passes, lengths, last, total = state
    at = b.binary("subtract", left, 1)
    none = b.scalar(float("-inf"), behind.shape.dtype)
    nowhere = b.spread(none, behind.shape.dims)
    over = b.shifted(b.select(passes, behind, nowhere), 1, -2, none)
    paths = _added(b, [behind, b.shifted(behind, 1, -1, none), over])
    when = b.spread(at, lengths.shape.dims)
    is_last = b.compare(b.binary("add", when, 1), lengths, direction="GE")
    paths = b.select(b.spread(is_last, paths.shape.dims, (0,)), last, paths)
    through = b.add(row_at(b, room, at), paths)
    counts = b.and_(b.compare(when, lengths, direction="LT"), b.is_finite(total))
    share = b.exponential(b.subtract(through, b.spread(total, through.shape.dims, (0,))))
    share = b.select(b.spread(counts, share.shape.dims, (0,)), share, b.zeros(share.shape))
    behind = b.add(paths, row_at(b, scores, at))
    return [
        at, end, behind, with_row(b, room, at, share), scores, passes, lengths, last, total,
    ]  # fmt: skip


def _is_left(b: TensorBuilder, state: State) -> Instruction:
    return b.compare(state[0], state[1], direction="NE")


def _loss(op: Op) -> tuple[Value, ...]:
    """Scores [time, batch, classes], the sparse labels' indices and values, lengths."""
    b, x = op.b, op.tensor(0)
    if op.attribute("preprocess_collapse_repeated", False):
        raise op.error("preprocess_collapse_repeated has no lowering")
    if not op.attribute("ctc_merge_repeated", True):
        raise op.error("ctc_merge_repeated=False has no lowering")
    time, batch, classes = x.shape.dims
    lengths = b.convert_to(op.tensor(3), S32)
    if not b.same(lengths.shape.dims[0], batch):
        raise op.mismatch(0, 3)
    assert_everywhere(
        b, b.compare(lengths, b.like(time, lengths.shape), direction="LE"),
        "sequence_length is greater than the number of time steps",
    )  # fmt: skip
    silent = b.scalar(classes - 1, S32)
    labels = _labels(op, silent, lengths)
    skips = bool(op.attribute("ignore_longer_outputs_than_inputs", False))
    if not skips:
        enough = b.emit("not", labels.missing)
        assert_everywhere(b, enough, "Not enough time for target transition sequence")

    logs = log_softmax(b, x, (2,))
    dims = (time, *labels.classes.shape.dims)
    scores = take_elements(b, logs, b.spread(labels.classes, dims, (1, 2)), 2)
    position = b.iota_of(S32, labels.classes.shape.dims, 1)
    nowhere = b.like(float("-inf"), Shape.array(x.shape.dtype, position.shape.dims))
    first = b.select(b.compared("EQ", position, 0), b.zeros(nowhere.shape), nowhere)
    zero, steps = b.constant(0, S32), b.convert_to(b.size(time), S32)
    state = [zero, steps, first, b.zeros(scores.shape), scores, labels.passes, lengths]
    _, _, paths, room, *_ = b.loop(state, _is_left, _forwards)

    ends = b.spread(b.binary("multiply", labels.counts, 2), position.shape.dims, (0,))
    is_end = b.or_(
        b.compare(position, ends, direction="EQ"),
        b.compare(b.binary("add", position, 1), ends, direction="EQ"),
    )
    last = b.select(is_end, b.zeros(nowhere.shape), nowhere)
    arrived = b.add(paths, last)
    most = b.reduced("maximum", arrived, (1,))
    base = b.select(b.is_finite(most), most, b.zeros(most.shape))
    shares = b.exponential(b.subtract(arrived, b.spread(base, arrived.shape.dims, (0,))))
    total = b.add(b.log(b.summed(shares, (1,))), base)

    state = [steps, zero, nowhere, room, scores, labels.passes, lengths, last, total]
    shares = b.loop(state, _is_left, _backwards)[3]
    gradient = b.subtract(b.exponential(logs), _by_class(op, shares, labels, silent))
    loss = b.negate(total)
    counts = b.compare(
        b.iota_of(S32, x.shape.dims, 0), b.spread(lengths, x.shape.dims, (1,)), direction="LT"
    )
    if skips:
        loss = b.select(labels.missing, b.zeros(loss.shape), loss)
        counts = b.and_(counts, b.spread(b.emit("not", labels.missing), x.shape.dims, (1,)))
    return loss, b.select(counts, gradient, b.zeros(gradient.shape))


def _by_class(op: Op, shares: Instruction, labels: _Labels, blank: Instruction) -> Instruction:
    """Add the shares of the positions [time, batch, positions] that have the same class."""
    b, classes = op.b, op.dims(0)[2]
    time, batch, positions = shares.shape.dims
    half = (positions - 1) // 2

    def of_labels(x: Instruction) -> Instruction:
        axis, rest = x.shape.rank - 1, x.shape.dims[:-1]
        pairs = b.reshape_to(b.sliced(x, axis, 1, positions), (*rest, half, 2))
        return b.reshape_to(b.sliced(pairs, axis + 1, 0, 1), (*rest, half))

    # Times lie last: a label's shares of all times are one row.
    rows = b.transposed(of_labels(shares), (1, 2, 0))
    first = b.multiply(
        b.iota_of(S32, (batch, half), 0), b.spread(b.scalar(classes, S32), (batch, half))
    )
    rooms = b.zeros(shares.shape.with_dims((batch * classes, time)))
    made = scatter_rows(op, "add", rooms, b.add(first, of_labels(labels.classes)), rows)
    made = b.transposed(b.reshape_to(made, (batch, classes, time)), (2, 0, 1))
    parity = b.binary("remainder", b.iota_of(S32, shares.shape.dims, 2), 2)
    even = b.select(b.compared("EQ", parity, 0), shares, b.zeros(shares.shape))
    silent = b.spread(b.summed(even, (2,)), made.shape.dims, (0, 1))
    number = b.iota_of(S32, made.shape.dims, 2)
    is_blank = b.compare(number, b.spread(blank, made.shape.dims), direction="EQ")
    return b.select(is_blank, silent, made)


RULES: dict[str, Rule] = {"CTCLoss": _loss}

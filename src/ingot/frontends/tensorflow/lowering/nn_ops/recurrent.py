# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells that are one op: LSTM with peepholes, one step or a loop over time, and GRU.

The product with the inputs of all steps is one, before the loop; so are those of the gradients of
inputs and weights, behind it. What is past the longest sequence is 0.

Source: TensorFlow's `kernels/rnn/lstm_ops.cc`, `gru_ops.cc`, `lstm_ops.h`, `gru_ops.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot.frontends.building.arrays import counts_up
from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.building.products import dot
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

Parts = list[Instruction]


@record
class _Lstm:
    """What the ops of an LSTM have in common.

    Attributes:
        order: the gates as they lie in the columns of the weights: "ICFO", or "IFCO".
        forget, clip: what is added to the forget gate; the limit of the state, if it is over 0.
        has_peepholes: whether gates see the state.
    """

    order: str
    forget: float
    clip: float
    has_peepholes: bool

    @staticmethod
    def of(op: Op, order: str) -> _Lstm:
        """Read the attributes."""
        forget = op.attribute("forget_bias", 1.0 if order == "ICFO" else 0.0)
        clip = float(op.attribute("cell_clip", 3.0 if order == "ICFO" else 0.0))
        return _Lstm(order, float(forget), clip, bool(op.attribute("use_peephole", False)))

    def step(self, b: TensorBuilder, gates: Instruction, cell: Instruction, looks: Parts) -> Parts:
        """Return i, cs, f, o, ci, co, h of a step, from all gates before they are squashed."""
        values = dict(zip(self.order, _columns(b, gates, 4), strict=True))
        look_i, look_f, look_o = (self._seen(b, look, cell) for look in looks)
        i = _sigmoid(b, b.add(values["I"], look_i(cell)))
        f = _sigmoid(b, b.add(b.binary("add", values["F"], self.forget), look_f(cell)))
        ci = b.tanh(values["C"])
        cs = b.add(b.multiply(ci, i), b.multiply(cell, f))
        if self.clip > 0:
            cs = b.clamp(b.like(-self.clip, cs.shape), cs, b.like(self.clip, cs.shape))
        o = _sigmoid(b, b.add(values["O"], look_o(cs)))
        co = b.tanh(cs)
        return [i, cs, f, o, ci, co, b.multiply(co, o)]

    def _seen(
        self, b: TensorBuilder, look: Instruction, like: Instruction
    ) -> Callable[[Instruction], Instruction]:
        """Return what a gate sees of a state: 0 without peepholes."""
        if not self.has_peepholes:
            return lambda _: b.zeros(like.shape)
        return lambda state: b.multiply(state, b.spread(look, like.shape.dims, (1,)))

    def step_back(
        self, b: TensorBuilder, before: Instruction, made: Parts, lost: Parts, looks: Parts
    ) -> tuple[Instruction, Instruction]:
        """Return the gradients of the state before and of the gates.

        `made`: i, f, o, ci, co of the step; `lost`: the gradients of its state and its result.
        """
        i, f, o, ci, co = made
        of_cell, of_h = lost
        look_i, look_f, look_o = (self._seen(b, look, before) for look in looks)
        d_o = b.multiply(_slope(b, o), b.multiply(of_h, co))
        d_cs = b.add(b.multiply(_tanh_slope(b, co), b.multiply(of_h, o)), of_cell)
        d_cs = b.add(d_cs, look_o(d_o))
        gates = {
            "I": b.multiply(_slope(b, i), b.multiply(d_cs, ci)),
            "C": b.multiply(_tanh_slope(b, ci), b.multiply(d_cs, i)),
            "F": b.multiply(_slope(b, f), b.multiply(d_cs, before)),
            "O": d_o,
        }
        d_before = b.add(b.multiply(d_cs, f), b.add(look_i(gates["I"]), look_f(gates["F"])))
        return d_before, b.concatenated([gates[name] for name in self.order], 1)

    def looks_back(
        self, b: TensorBuilder, gates: Instruction, before: Instruction, cells: Instruction
    ) -> Parts:
        """Return the gradients of the three peepholes from those of the gates, all rows at once."""
        values = dict(zip(self.order, _columns(b, gates, 4), strict=True))
        pairs = ((values["I"], before), (values["F"], before), (values["O"], cells))
        if not self.has_peepholes:
            return [b.zeros(cells.shape.with_dims(cells.shape.dims[-1:])) for _ in pairs]
        axes = tuple(range(cells.shape.rank - 1))
        return [b.summed(b.multiply(gate, state), axes) for gate, state in pairs]


def _sigmoid(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.emit("logistic", x)


def _slope(b: TensorBuilder, y: Instruction) -> Instruction:
    """Return the slope of the sigmoid where it is `y`."""
    return b.multiply(y, b.subtract(b.like(1, y.shape), y))


def _tanh_slope(b: TensorBuilder, y: Instruction) -> Instruction:
    return b.subtract(b.like(1, y.shape), b.multiply(y, y))


def _columns(b: TensorBuilder, x: Instruction, count: int) -> Parts:
    """Cut the last dimension into equal parts."""
    last = x.shape.rank - 1
    size = x.shape.dims[last] // count
    return [b.sliced(x, last, n * size, (n + 1) * size) for n in range(count)]


def _plus_bias(b: TensorBuilder, x: Instruction, bias: Instruction) -> Instruction:
    return b.add(x, b.spread(bias, x.shape.dims, (x.shape.rank - 1,)))


def _times(b: TensorBuilder, x: Instruction, weights: Instruction) -> Instruction:
    return dot(b, x, weights, ((x.shape.rank - 1,), (0,)))


def _times_transposed(b: TensorBuilder, x: Instruction, weights: Instruction) -> Instruction:
    return dot(b, x, weights, ((x.shape.rank - 1,), (1,)))


def _split_rows(
    b: TensorBuilder, weights: Instruction, inputs: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the rows of the weights for the inputs, and those for the result before."""
    count = inputs.shape.dims[-1]
    return b.sliced(weights, 0, 0, count), b.sliced(weights, 0, count, weights.shape.dims[0])


# ---- LSTM


def _lstm_cell(op: Op) -> tuple[Value, ...]:
    """x, cs, h, weights, three peepholes, bias."""
    b, lstm = op.b, _Lstm.of(op, "ICFO")
    x, cell, h, weights, *looks, bias = op.tensors()
    gates = _times(b, b.concatenated([x, h], 1), weights)
    return tuple(lstm.step(b, _plus_bias(b, gates, bias), cell, looks))


def _lstm_cell_gradient(op: Op) -> tuple[Value, ...]:
    """The cell's operands, its results without h, and the gradients of cs and h."""
    b, lstm = op.b, _Lstm.of(op, "ICFO")
    _, before, _, _, *looks, _, i, cell, f, o, ci, co, of_cell, of_h = op.tensors()
    made = [i, f, o, ci, co]
    d_before, gates = lstm.step_back(b, before, made, [of_cell, of_h], looks)
    return (d_before, gates, *lstm.looks_back(b, gates, before, cell))


def _lstm(op: Op, order: str) -> tuple[Value, ...]:
    """How many steps there are, x of all times, then the cell's operands."""
    b, lstm = op.b, _Lstm.of(op, order)
    x, cell, h, weights, *looks, bias = op.tensors(1)
    of_x, of_h = _split_rows(b, weights, x)
    gates = _plus_bias(b, _times(b, x, of_x), bias)
    rooms = [b.zeros(x.shape.with_dims((x.shape.dims[0], *h.shape.dims))) for _ in range(7)]
    steps = b.convert_to(op.tensor(0), S64)

    def step(b: TensorBuilder, state: Parts) -> Parts:
        at, steps, gates, cell, h, of_h, *rest = state
        looks, rooms = rest[:3], rest[3:]
        now = b.add(row_at(b, gates, at), _times(b, h, of_h))
        made = lstm.step(b, now, cell, looks)
        rooms = [with_row(b, room, at, row) for room, row in zip(rooms, made, strict=True)]
        return [b.binary("add", at, 1), steps, gates, made[1], made[6], of_h, *looks, *rooms]

    start = [b.constant(0, S64), steps, gates, cell, h, of_h, *looks, *rooms]
    return tuple(b.loop(start, counts_up, step)[-7:])


def _lstm_gradient(op: Op, order: str) -> tuple[Value, ...]:
    """The operands of the loop, its results, and the gradients of cs and h of all times."""
    b, lstm = op.b, _Lstm.of(op, order)
    x, cell, h, weights, *looks, _ = op.tensors(1, 9)
    i, cells, f, o, ci, co, results, of_cells, of_results = op.tensors(9)
    of_x, of_h = _split_rows(b, weights, x)
    steps = b.convert_to(op.tensor(0), S64)
    earlier = [_moved(b, first, rows) for first, rows in ((cell, cells), (h, results))]
    rooms = b.zeros(x.shape.with_dims((*x.shape.dims[:2], weights.shape.dims[1])))

    def step(b: TensorBuilder, state: Parts) -> Parts:
        left, end, d_cell, d_h, of_h, room, *rest = state
        looks, arrays = rest[:3], rest[3:]
        at = b.binary("subtract", left, 1)
        before, *made, of_cell, of_result = (row_at(b, item, at) for item in arrays)
        lost = [b.add(d_cell, of_cell), b.add(d_h, of_result)]
        d_cell, gates = lstm.step_back(b, before, made, lost, looks)
        d_h = _times_transposed(b, gates, of_h)
        return [at, end, d_cell, d_h, of_h, with_row(b, room, at, gates), *rest]

    def goes_on(b: TensorBuilder, state: Parts) -> Instruction:
        return b.compare(state[0], state[1], direction="GT")

    arrays = [earlier[0], i, f, o, ci, co, of_cells, of_results]
    start = [steps, b.constant(0, S64), b.zeros(cell.shape), b.zeros(h.shape), of_h, rooms]
    found = b.loop([*start, *looks, *arrays], goes_on, step)
    d_cell, d_h, gates = found[2], found[3], found[5]
    rows = (0, 1)
    d_weights = [dot(b, item, gates, (rows, rows)) for item in (x, earlier[1])]
    return (
        _times_transposed(b, gates, of_x), d_cell, d_h, b.concatenated(d_weights, 0),
        *lstm.looks_back(b, gates, earlier[0], cells), b.summed(gates, rows),
    )  # fmt: skip


def _moved(b: TensorBuilder, first: Instruction, rows: Instruction) -> Instruction:
    """Return what was there before each time: `first`, then the rows without the last."""
    head = b.reshape_to(first, (1, *first.shape.dims))
    return b.concatenated([head, b.sliced(rows, 0, 0, rows.shape.dims[0] - 1)], 0)


# ---- GRU


def _gru_cell(op: Op) -> tuple[Value, ...]:
    """x, h, weights and biases of both gates and of the candidate."""
    b = op.b
    x, h, of_gates, of_value, gates_bias, value_bias = op.tensors()
    gates = _plus_bias(b, _times(b, b.concatenated([x, h], 1), of_gates), gates_bias)
    r, u = _columns(b, _sigmoid(b, gates), 2)
    value = _times(b, b.concatenated([x, b.multiply(r, h)], 1), of_value)
    c = b.tanh(_plus_bias(b, value, value_bias))
    kept = b.subtract(b.like(1, u.shape), u)
    return r, u, c, b.add(b.multiply(u, h), b.multiply(kept, c))


def _gru_cell_gradient(op: Op) -> tuple[Value, ...]:
    """The cell's operands, r, u and c, and the gradient of its result."""
    b = op.b
    x, h, of_gates, of_value, _, _, r, u, c, lost = op.tensors()
    kept = b.subtract(b.like(1, u.shape), u)
    d_c = b.multiply(b.multiply(lost, kept), _tanh_slope(b, c))
    d_u = b.multiply(b.multiply(lost, b.subtract(h, c)), _slope(b, u))
    x_rows, h_rows = _split_rows(b, of_value, x)
    d_rh = _times_transposed(b, d_c, h_rows)
    d_r = b.multiply(b.multiply(d_rh, h), _slope(b, r))
    d_gates = b.concatenated([d_r, d_u], 1)
    x_gates, h_gates = _split_rows(b, of_gates, x)
    d_x = b.add(_times_transposed(b, d_c, x_rows), _times_transposed(b, d_gates, x_gates))
    d_h = b.add(b.multiply(d_rh, r), b.multiply(lost, u))
    return d_x, b.add(d_h, _times_transposed(b, d_gates, h_gates)), d_c, d_gates


RULES: dict[str, Rule] = {
    "BlockLSTM": partial(_lstm, order="ICFO"),
    "BlockLSTMGrad": partial(_lstm_gradient, order="ICFO"),
    "BlockLSTMGradV2": partial(_lstm_gradient, order="IFCO"),
    "BlockLSTMV2": partial(_lstm, order="IFCO"),
    "GRUBlockCell": _gru_cell,
    "GRUBlockCellGrad": _gru_cell_gradient,
    "LSTMBlockCell": _lstm_cell,
    "LSTMBlockCellGrad": _lstm_cell_gradient,
}

# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers (`nn.RNN`, `GRU`, `LSTM`) as loops: `recurrent_layers_as_loops()`.

PyTorch's decompositions unroll a layer over time, with some ten nodes for each step. Here a layer
becomes PyTorch's `scan` over time, whose gradient is a scan as well, so the program has one loop.
An LSTM of inference stays PyTorch's fused layer, which has a rule.

This avoids two defects of PyTorch 2.13's decompositions: dropout between layers is omitted in
training (`_rnn_helper` compares layers the wrong way round), and an LSTM of which only weights are
trained is treated as one of inference.

Source: PyTorch's `torch/_decomp/decompositions.py`, `aten/src/ATen/native/RNN.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch._decomp import decompositions as torch_decompositions
from torch._higher_order_ops.scan import scan_op

_TORCH: Any = torch
_LINEAR: Any = torch.nn.functional.linear
_DECOMPOSITIONS: Any = cast("Any", torch_decompositions)


@contextmanager
def recurrent_layers_as_loops() -> Generator[None]:
    """Let AOTAutograd trace recurrent layers as loops."""
    select = _DECOMPOSITIONS.select_one_layer_lstm_function
    replaced: dict[str, Callable[..., Any]] = {
        "_rnn_helper": _layers,
        "one_layer_lstm": _lstm,
        "one_layer_rnn": _one_state,
        "select_one_layer_lstm_function": partial(_lstm_for, select),
    }
    before = {name: getattr(_DECOMPOSITIONS, name) for name in replaced}
    for name, function in replaced.items():
        setattr(_DECOMPOSITIONS, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(_DECOMPOSITIONS, name, function)


def _lstm_for(select: Callable[..., Any], given: Any, states: Any, params: Any) -> Any:
    """Return the function of an LSTM layer: the fused one if nothing is trained."""
    weights = (weight for layer in params for weight in layer)
    if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights):
        return _lstm
    return select(given, states, params)


def _layers(
    x: Any,
    states: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer: Callable[..., Any],
) -> tuple[Any, list[Any]]:
    """Return the output of several layers, and their last states; dropout is between layers."""
    x = x.transpose(0, 1) if batch_first else x
    last: list[Any] = []
    for number in range(num_layers):
        weights, state, back_weights, back_state = _DECOMPOSITIONS.params_hiddens(
            params, states, number, bidirectional
        )
        out, final = layer(x, state, weights, has_biases)
        last.append(final)
        if bidirectional:
            back, final = layer(x, back_state, back_weights, has_biases, reverse=True)
            last.append(final)
            out = _TORCH.cat([out, back], out.dim() - 1)
        x = out
        if dropout and train and number < num_layers - 1:
            x = _TORCH.dropout(x, dropout, train=True)
    return (x.transpose(0, 1) if batch_first else x), last


def _swept(
    step: Callable[..., tuple[list[Any], Any]],
    state: Sequence[Any],
    rows: Any,
    others: Sequence[Any],
    reverse: bool,
) -> tuple[list[Any], Any]:
    """Return the last state of a loop over `rows`, and the output of each step.

    `step` takes the state, a row and `others`; it returns the next state and an output.
    """

    def called(*given: Any) -> list[Any]:
        after, out = step(given[: len(state)], given[len(state)], given[len(state) + 1 :])
        return [*after, out.clone()]

    rows = rows.flip(0) if reverse else rows
    start = tuple(_in_order(item).clone() for item in state)
    made: Sequence[Any] = cast("Any", scan_op)(called, start, (rows,), tuple(others))
    *last, out = made
    return list(map(_in_order, last)), (out.flip(0) if reverse else out)


def _in_order(state: Any) -> Any:
    """Return a state whose strides, and those of its gradient, are of elements in order.

    The state of a loop, and of its gradient's loop, must keep its strides. PyTorch's copies keep
    any strides of a dimension of size 1, as of a batch of 1 cut from a larger array.
    """
    return state.flatten().view(state.shape)


def _lstm(
    x: Any, states: Any, params: Any, has_biases: bool, reverse: bool = False
) -> tuple[Any, tuple[Any, Any]]:
    weight, hidden_weight, *more = params
    count = 2 if has_biases else 0
    biases, projection = more[:count], more[count:]
    others = [hidden_weight, *biases[1:], *projection]

    def step(state: Sequence[Any], row: Any, others: Sequence[Any]) -> tuple[list[Any], Any]:
        hidden, cell = state
        bias = others[1] if has_biases else None
        gates = _LINEAR(hidden, others[0], bias) + row
        enter, forget, change, leave = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * change.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        if projection:
            hidden = _LINEAR(hidden, others[-1], None)
        return [hidden, cell], hidden

    rows = _LINEAR(x, weight, biases[0] if has_biases else None)
    (hidden, cell), out = _swept(step, list(states), rows, others, reverse)
    return out, (hidden, cell)


def _one_state(
    x: Any, hidden: Any, params: Any, has_biases: bool, hidden_fn: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """Return output and last state of an RNN or a GRU; `hidden_fn` is PyTorch's cell."""
    weight, hidden_weight, *biases = params
    is_gru = hidden_fn is _DECOMPOSITIONS.gru_cell

    def step(state: Sequence[Any], row: Any, others: Sequence[Any]) -> tuple[list[Any], Any]:
        bias = others[1] if has_biases else None
        if is_gru:
            after = _gru_cell(row, state[0], others[0], bias)
        else:
            after = hidden_fn(row, state[0], None, None, others[0], bias)
        return [after], after

    rows = _LINEAR(x, weight, biases[0] if has_biases else None)
    (last,), out = _swept(step, [hidden], rows, [hidden_weight, *biases[1:]], reverse)
    return out, last


def _gru_cell(row: Any, hidden: Any, weight: Any, bias: Any) -> Any:
    """Return the next state of `[batch, hidden]`; PyTorch's cell has one more dimension."""
    reset, update, new = row.chunk(3, 1)
    from_reset, from_update, from_new = _LINEAR(hidden, weight, bias).chunk(3, 1)
    reset = (from_reset + reset).sigmoid()
    update = (from_update + update).sigmoid()
    new = (new + from_new * reset).tanh()
    return (hidden - new) * update + new

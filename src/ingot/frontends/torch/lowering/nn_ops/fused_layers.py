# SPDX-License-Identifier: Apache-2.0
"""PyTorch's fused layers of inference: a whole transformer encoder layer, an LSTM layer.

Modules in evaluation mode call them instead of single ops. They are expanded into products, softmax
and normalizations, which fuse with the ops around them.
Source: PyTorch's `aten/src/ATen/native/transformers/transformer.cpp`, `attention.cpp`;
`native/mkldnn/RNN.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, counts_up, wider
from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import PRED, S64, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

Given = Instruction | None


def _linear(
    b: ArrayBuilder, x: Instruction, weight: Instruction, bias: Given, element: DType | None = None
) -> Instruction:
    """Return x @ weight^T + bias, for the last dimension of x; halves are summed in f32."""
    wide = wider(x.shape.dtype)
    made = dot(b, x, weight, ((x.shape.rank - 1,), (1,)), element=wide)
    if bias is not None:
        made = b.add(made, b.spread(b.convert_to(bias, wide), made.shape.dims))
    return b.convert_to(made, element or x.shape.dtype)


def _layer_norm(
    b: ArrayBuilder, given: Instruction, weight: Instruction, bias: Instruction, epsilon: float
) -> Instruction:
    x = b.convert_to(given, wider(given.shape.dtype))
    dims, last = x.shape.dims, x.shape.rank - 1
    outer = tuple(range(last))
    count = b.scalar(dims[last], x.shape.dtype)

    def mean(item: Instruction) -> Instruction:
        total = b.reduced("add", item, (last,))
        return b.divide(total, b.spread(count, total.shape.dims))

    centred = b.subtract(x, b.spread(mean(x), dims, outer))
    variance = mean(b.multiply(centred, centred))
    inverse = b.rsqrt(b.binary("add", variance, epsilon))
    made = b.multiply(centred, b.spread(inverse, dims, outer))
    for opcode, vector in (("multiply", weight), ("add", bias)):
        wide = b.convert_to(vector, x.shape.dtype)
        made = b.emit(opcode, made, b.spread(wide, dims))
    return b.convert_to(made, given.shape.dtype)


def _self_attention(
    op: Op,
    x: Instruction,
    heads: int,
    qkv: tuple[Instruction, Instruction],
    projection: tuple[Instruction, Instruction],
    mask: Given,
    mask_type: int | None,
) -> Instruction:
    """Return multi-head attention of x, `[batch, length, width]`, with itself."""
    b = op.b
    batch, length, width = x.shape.dims
    depth = op.known(width, "width of the layer") // heads
    wide = wider(x.shape.dtype)
    packed = b.reshape_to(_linear(b, x, *qkv), (batch, length, 3, heads, depth))
    query, key, value = (
        b.reshape_to(b.sliced(packed, 2, n, n + 1), (batch, length, heads, depth)) for n in range(3)
    )
    scores = dot(b, query, key, ((3,), (3,)), ((0, 2), (0, 2)), wide)
    scores = b.binary("multiply", scores, 1 / math.sqrt(depth))
    if mask is not None:
        scores = _masked(op, scores, mask, mask_type)
    dims, rows = scores.shape.dims, (0, 1, 2)
    greatest = b.reduced("maximum", scores, (3,))
    powers = b.exponential(b.subtract(scores, b.spread(greatest, dims, rows)))
    total = b.reduced("add", powers, (3,))
    weights = b.convert_to(b.divide(powers, b.spread(total, dims, rows)), x.shape.dtype)
    mixed = dot(b, weights, value, ((3,), (1,)), ((0, 1), (0, 2)))
    joined = b.reshape_to(b.transposed(mixed, (0, 2, 1, 3)), x.shape.dims)
    return _linear(b, joined, *projection)


def _masked(op: Op, scores: Instruction, mask: Instruction, mask_type: int | None) -> Instruction:
    """Mask scores; the types are 0: [queries, keys], 1: [batch, keys], 2: all dimensions."""
    b, dims = op.b, scores.shape.dims
    mask_dims = {0: (2, 3), 1: (0, 3), 2: (0, 1, 2, 3)}.get(
        mask_type if mask_type is not None else -1
    )
    if mask_dims is None or mask.shape.rank != len(mask_dims):
        raise op.error(f"a mask of type {mask_type} and rank {mask.shape.rank}")
    spread = b.spread(mask, dims, mask_dims)
    if mask.shape.dtype is not PRED:
        return b.add(scores, b.convert_to(spread, scores.shape.dtype))
    return b.select(spread, b.like(-math.inf, scores.shape), scores)


@RULES.rule("_transformer_encoder_layer_fwd")
def _encoder_layer(
    op: Op,
    x: Instruction,
    embed_dim: int,
    heads: int,
    qkv_weight: Instruction,
    qkv_bias: Instruction,
    projection_weight: Instruction,
    projection_bias: Instruction,
    use_gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm_weight_1: Instruction,
    norm_bias_1: Instruction,
    norm_weight_2: Instruction,
    norm_bias_2: Instruction,
    weight_1: Instruction,
    bias_1: Instruction,
    weight_2: Instruction,
    bias_2: Instruction,
    mask: Given = None,
    mask_type: int | None = None,
) -> Instruction:
    """Attention and a perceptron, each with a residual and a norm before or after it."""
    del embed_dim
    b = op.b
    if x.shape.rank != 3:
        raise op.error("without a batch")
    qkv, projection = (qkv_weight, qkv_bias), (projection_weight, projection_bias)
    norms = ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2))
    rest = _layer_norm(b, x, *norms[0], epsilon) if norm_first else x
    x = b.add(x, _self_attention(op, rest, heads, qkv, projection, mask, mask_type))
    if not norm_first:
        x = _layer_norm(b, x, *norms[0], epsilon)
    rest = _layer_norm(b, x, *norms[1], epsilon) if norm_first else x
    hidden = _linear(b, rest, weight_1, bias_1, wider(x.shape.dtype))
    if use_gelu:
        half = b.binary("multiply", hidden, 0.5)
        erf = b.emit("erf", b.binary("multiply", hidden, math.sqrt(0.5)))
        hidden = b.multiply(half, b.binary("add", erf, 1))
    else:
        hidden = b.binary("maximum", hidden, 0)
    x = b.add(x, _linear(b, b.convert_to(hidden, x.shape.dtype), weight_2, bias_2))
    return x if norm_first else _layer_norm(b, x, *norms[1], epsilon)


# ---- LSTM

_LSTM = 2
"""`ideep::rnn_kind` of an LSTM, in the argument `mode`."""


def _gates(b: ArrayBuilder, x: Instruction, hidden: int) -> list[Instruction]:
    """Return the four gates of `[batch, 4 * hidden]`."""
    parts = [b.sliced(x, 1, n * hidden, (n + 1) * hidden) for n in range(4)]
    return [b.tanh(part) if n == 2 else b.logistic(part) for n, part in enumerate(parts)]


@RULES.rule("mkldnn_rnn_layer")
def _lstm_layer(
    op: Op,
    x: Instruction,
    input_weight: Instruction,
    hidden_weight: Instruction,
    input_bias: Instruction,
    hidden_bias: Instruction,
    start_hidden: Instruction,
    start_cell: Instruction,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden: int,
    layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Instruction, ...]:
    """One layer in one direction, `[length, batch, inputs]`: a loop over time.

    The products with the inputs of all times are one product before the loop.
    """
    del bidirectional
    if mode != _LSTM or layers != 1 or batch_first or train or list(batch_sizes):
        raise op.error("only one LSTM layer, time first, in inference")
    b = op.b
    length, batch = x.shape.dims[:2]
    state_dims = (batch, hidden)
    projected = dot(b, x, input_weight, ((2,), (1,)))
    if has_biases:
        bias = b.add(input_bias, hidden_bias)
        projected = b.add(projected, b.spread(bias, projected.shape.dims))
    outputs = b.zeros(x.shape.with_dims((length, *state_dims)))
    state = [
        b.constant(0, S64),
        b.size(length),
        b.reshape_to(start_hidden, state_dims),
        b.reshape_to(start_cell, state_dims),
        outputs,
        projected,
        hidden_weight,
    ]

    def step(inner: ArrayBuilder, values: list[Instruction]) -> Sequence[Instruction]:
        number, count, h, c, made, given, weight = values
        last = inner.binary("subtract", count, 1)
        time = inner.subtract(last, number) if reverse else number
        total = inner.add(row_at(inner, given, time), dot(inner, h, weight, ((1,), (1,))))
        enter, forget, change, leave = _gates(inner, total, hidden)
        c = inner.add(inner.multiply(forget, c), inner.multiply(enter, change))
        h = inner.multiply(leave, inner.tanh(c))
        made = with_row(inner, made, time, h)
        return inner.binary("add", number, 1), count, h, c, made, given, weight

    found = b.loop(state, counts_up, step)
    made = [found[4], found[2], found[3]]
    shaped = [b.reshape_to(item, op.shape_of(n).dims) for n, item in enumerate(made)]
    return (*shaped, b.zeros(op.shape_of(3)))

# SPDX-License-Identifier: Apache-2.0
"""XLA's calls of oneDNN: `__onednn$matmul`, `$convolution`, `$layernorm`, `$softmax`.

XLA:CPU writes these custom calls itself when it is built with oneDNN (TensorFlow's is), so its
dumps after optimization contain them. Each is one ordinary computation: `meaning` returns it, the
evaluator evaluates it and the expander replaces the call by it. All arithmetic is in f32, rounded
once to the result's element type.

Source: xla/service/cpu/onednn_config.proto (the `backend_config`), onednn_matmul.cc,
onednn_convolution.cc, onednn_layer_norm.cc, onednn_softmax.cc, onednn_util.cc (fused ops).
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.semantics.custom_calls import config_text
from ingot.support.diagnostics import UnsupportedError

Config = dict[str, Any]
_KINDS = (
    "UNDEFINED", "BIAS", "RELU", "TANH", "GELU_ERF", "GELU_TANH", "BINARY_ADD", "LINEAR", "ELU",
    "RELU6", "SIGMOID", "SUM", "SWISH",
)  # fmt: skip
"""Fused ops by their numbers in the proto."""


def is_onednn(op: Instruction) -> bool:
    """Whether a custom call is one of these."""
    return op.attributes.custom_call_target in _MEANINGS


def meaning(op: Instruction) -> Computation:
    """Return a computation of the call's operands that gives its result.

    Raises:
        UnsupportedError: weights in oneDNN's own order, which nothing else can read.
    """
    build = Builder("onednn", op.metadata)
    given = [build.parameter(n, operand.shape) for n, operand in enumerate(op.operands)]
    result = op.shape.elements[0] if op.shape.is_tuple else op.shape
    name, value_of = _MEANINGS[op.attributes.custom_call_target]
    config = _config(op).get(name, {})
    if config.get("optimization_config", {}).get("weights_prepacked"):
        raise UnsupportedError(
            "a product of weights in the order that oneDNN chose for them",
            instruction=repr(op),
            op_name=op.metadata.op_name,
            location=op.metadata.location,
            hint="give the module as it was before (XLA dumps it as *.before_optimizations.txt)",
        )
    value = build.convert_to(value_of(build, given, config, result), result.dtype)
    if op.shape.is_tuple:
        # The other elements of the tuple are scratch memory.
        value = build.tuple(value, *(build.full(0, shape) for shape in op.shape.elements[1:]))
    return build.build(value)


def _config(op: Instruction) -> Config:
    text = config_text(op)
    return _with_proto_names(json.loads(text)) if text.startswith("{") else {}


def _with_proto_names(value: Any) -> Any:
    """Return JSON of a proto with its fields as the proto names them, whichever was written."""
    if isinstance(value, dict):
        pairs: list[tuple[str, Any]] = list(value.items())  # pyright: ignore
        return {
            re.sub("(?<=[a-z])[A-Z]", lambda m: f"_{m[0].lower()}", key): _with_proto_names(inner)
            for key, inner in pairs
        }
    if isinstance(value, list):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return [_with_proto_names(item) for item in items]
    return value


def _numbers(config: Config, name: str, missing: Sequence[int] = ()) -> list[int]:
    """Return a repeated number; JSON has 64-bit ones as strings."""
    return [int(number) for number in config.get(name, missing)]


# ---- the four


def _softmax(
    build: Builder, given: list[Instruction], config: Config, result: Shape
) -> Instruction:
    x = build.convert_to(given[0], F32)
    axis = int(config.get("softmax_axis", 0)) % max(x.shape.rank, 1)
    highest = _reduced(build, x, axis, "maximum", -math.inf)
    powers = build.exponential(build.subtract(x, highest))
    return build.divide(powers, _reduced(build, powers, axis, "add", 0))


def _layer_norm(
    build: Builder, given: list[Instruction], config: Config, result: Shape
) -> Instruction:
    x, scale, shift = (build.convert_to(value, F32) for value in given)
    bits = int(config.get("epsilon_typecast", 0))
    (epsilon,) = struct.unpack("<f", struct.pack("<i", bits))
    last = x.shape.rank - 1
    count = build.full(x.shape.dims[last], x.shape)
    centred = build.subtract(x, build.divide(_reduced(build, x, last, "add", 0), count))
    squares = _reduced(build, build.multiply(centred, centred), last, "add", 0)
    spread = build.add(build.divide(squares, count), build.full(epsilon, x.shape))
    scaled = build.multiply(build.divide(centred, build.sqrt(spread)), _wide(build, scale, x.shape))
    return build.add(scaled, _wide(build, shift, x.shape))


def _matmul(build: Builder, given: list[Instruction], config: Config, result: Shape) -> Instruction:
    lhs, rhs, *fused = given
    left = _order(config, "lhs", lhs.shape.rank, bool(config.get("transpose_a")))
    right = _order(config, "rhs", rhs.shape.rank, bool(config.get("transpose_b")))
    order = _order(config, "result", result.rank, swapped=False)
    dims = tuple(result.dims[dim] for dim in order)
    product = build.dot(
        lhs,
        rhs,
        shape=Shape.array(F32, dims),
        lhs_batch_dims=tuple(left[:-2]),
        lhs_contracting_dims=(left[-1],),
        rhs_batch_dims=tuple(right[:-2]),
        rhs_contracting_dims=(right[-2],),
    )
    value = _with_fused(build, product, fused, config, product.shape.rank - 1)
    permutation = tuple(order.index(dim) for dim in range(result.rank))
    return build.transpose(value, dimensions=permutation)


def _order(config: Config, name: str, rank: int, swapped: bool) -> list[int]:
    """Return an operand's dimensions in oneDNN's order: batches, rows, columns (from 1)."""
    written = _numbers(config.get(name, {}).get("tensor", {}), "dimensions")
    order = [number - 1 for number in written] or list(range(rank))
    if swapped:
        order[-2:] = [order[-1], order[-2]]
    return order


def _convolution(
    build: Builder, given: list[Instruction], config: Config, result: Shape
) -> Instruction:
    lhs, rhs, *fused = given
    window = config.get("window", {})
    rank = lhs.shape.rank
    ones, zeros = [1] * (rank - 2), [0] * (rank - 2)
    kernel = config["kernel"]["filter"]
    sizes = [rhs.shape.static_dims[dim] for dim in _numbers(kernel, "spatial_dims")]
    columns = (
        sizes,
        _numbers(window, "strides", ones),
        _numbers(window, "pad_left", zeros),
        _numbers(window, "pad_right", zeros),
        _numbers(window, "window_dilations", ones),
    )
    output = _letters(config["output"]["data"], rank, b="batch_dim", f="feature_dim")
    labels = (
        _letters(config["input"]["data"], rank, b="batch_dim", f="feature_dim"),
        _letters(kernel, rank, i="input_feature_dim", o="output_feature_dim"),
    )
    product = build.convolution(
        lhs,
        rhs,
        shape=Shape.array(F32, result.dims),
        window=tuple(
            WindowDimension(size, stride=stride, low=low, high=high, window_dilation=dilation)
            for size, stride, low, high, dilation in zip(*columns, strict=True)
        ),
        dim_labels=f"{labels[0]}_{labels[1]}->{output}",
        feature_group_count=int(config.get("feature_groups", 1)) or 1,
    )
    return _with_fused(build, product, fused, config, output.index("f"))


def _letters(config: Config, rank: int, **dimensions: str) -> str:
    """Return XLA's letters of the dimensions of an operand or result."""
    found = {int(config.get(name, 0)): letter for letter, name in dimensions.items()}
    found |= {dim: str(n) for n, dim in enumerate(_numbers(config, "spatial_dims"))}
    return "".join(found[dim] for dim in range(rank))


# ---- post-ops of a product


def _with_fused(
    build: Builder, value: Instruction, fused: list[Instruction], config: Config, feature: int
) -> Instruction:
    """Apply the fused ops: the bias first, wherever it is listed, then the others in order."""
    fusions: Config = config.get("fusions", {})
    kinds = [
        kind if isinstance(kind, str) else _KINDS[int(kind)] for kind in fusions.get("ops", ())
    ]
    takes = iter(fused)
    operands = [next(takes) if kind in _TAKES else None for kind in kinds]
    more = len([*takes])
    if more:
        raise ValueError(f"{more} operands are of no fused op")
    scales = iter(fusions.get("alpha", ()))
    steps = sorted(zip(kinds, operands, strict=True), key=lambda pair: pair[0] != "BIAS")
    for kind, operand in steps:
        if operand is not None:
            dim = feature if operand.shape.rank == 1 else None
            wide = _wide(build, build.convert_to(operand, F32), value.shape, dim)
            value = build.add(value, wide)
        elif kind == "LINEAR":
            value = build.multiply(value, build.full(float(next(scales)), value.shape))
        else:
            value = _ACTIVATIONS[kind](build, value)
    return value


_TAKES = frozenset({"BIAS", "BINARY_ADD", "SUM"})
"""Fused ops that take an operand, and add it."""


def _sigmoid(build: Builder, x: Instruction) -> Instruction:
    return build.logistic(x)


def _gelu(build: Builder, x: Instruction, share: Instruction) -> Instruction:
    half = build.full(0.5, x.shape)
    return build.multiply(build.multiply(x, half), build.add(build.full(1, x.shape), share))


def _gelu_erf(build: Builder, x: Instruction) -> Instruction:
    return _gelu(build, x, build.erf(build.multiply(x, build.full(math.sqrt(0.5), x.shape))))


def _gelu_tanh(build: Builder, x: Instruction) -> Instruction:
    cube = build.multiply(build.multiply(x, x), x)
    sum_ = build.add(x, build.multiply(cube, build.full(0.044715, x.shape)))
    return _gelu(build, x, build.tanh(build.multiply(sum_, build.full(_ROOT, x.shape))))


def _elu(build: Builder, x: Instruction) -> Instruction:
    zero = build.full(0, x.shape)
    is_positive = build.compare(x, zero, direction="GT")
    return build.select(is_positive, x, build.exponential_minus_one(x))


_ROOT = math.sqrt(2 / math.pi)
_ACTIVATIONS: dict[str, Callable[[Builder, Instruction], Instruction]] = {
    "ELU": _elu,
    "GELU_ERF": _gelu_erf,
    "GELU_TANH": _gelu_tanh,
    "RELU": lambda build, x: build.maximum(x, build.full(0, x.shape)),
    "RELU6": lambda build, x: build.clamp(build.full(0, x.shape), x, build.full(6, x.shape)),
    "SIGMOID": _sigmoid,
    "SWISH": lambda build, x: build.multiply(x, _sigmoid(build, x)),
    "TANH": lambda build, x: build.tanh(x),
}


def _wide(build: Builder, value: Instruction, like: Shape, dim: int | None = None) -> Instruction:
    """Return a value broadcast to `like`: along dimension `dim`, or along the last dimensions."""
    dims, first = value.shape.dims, like.rank - value.shape.rank
    dimensions = [dim] if dim is not None else list(range(first, like.rank))
    kept = [n for n, size in enumerate(dims) if size == like.dims[dimensions[n]]]
    narrow = build.reshape_to(value, tuple(dims[n] for n in kept))
    return build.broadcast_to(narrow, like.dims, tuple(dimensions[n] for n in kept))


def _reduced(build: Builder, x: Instruction, axis: int, opcode: str, start: float) -> Instruction:
    """Return a fold along an axis, broadcast back over it."""
    folded = build.reduce(
        x, build.constant(start, F32), dimensions=(axis,), to_apply=scalar_computation(opcode, F32)
    )
    kept = tuple(n for n in range(x.shape.rank) if n != axis)
    return build.broadcast_to(folded, x.shape.dims, kept)


_MEANINGS: dict[
    str, tuple[str, Callable[[Builder, list[Instruction], Config, Shape], Instruction]]
] = {
    "__onednn$convolution": ("onednn_conv_config", _convolution),
    "__onednn$layernorm": ("onednn_layer_norm_config", _layer_norm),
    "__onednn$matmul": ("onednn_matmul_config", _matmul),
    "__onednn$softmax": ("onednn_softmax_config", _softmax),
}
"""Target -> its field of XLA:CPU's `BackendConfig`, and what it computes."""

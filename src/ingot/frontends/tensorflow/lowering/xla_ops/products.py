# SPDX-License-Identifier: Apache-2.0
"""`Xla*` products and convolutions, with dimension numbers and precision as HLO has them.

Source: TensorFlow's `compiler/tf2xla/kernels/xla_dot_op.cc`, `xla_conv_op.cc`.
"""

from __future__ import annotations

from ingot.formats.hlo_proto.structures import read_labels, read_precision
from ingot.frontends.tensorflow.graphs.captured import TypeName
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value, element_of
from ingot.frontends.tensorflow.lowering.linalg_ops.linalg import RULES as LINALG
from ingot.frontends.tensorflow.lowering.linalg_ops.matmul import RULES as MATMUL
from ingot.frontends.tensorflow.lowering.xla_ops.instructions import proto
from ingot.hlo.dtype import DType
from ingot.hlo.window import WindowDimension


def _precision(op: Op) -> tuple[str, ...]:
    return read_precision({"precision_config": proto(op, "precision_config", "PrecisionConfig")})


def _element(op: Op) -> DType:
    """The type of the result: the preferred one, or the operands'."""
    kind = op.attribute("preferred_element_type")
    return element_of(kind.name) if isinstance(kind, TypeName) else op.dtype(0)


def _dot(op: Op) -> Value:
    numbers = proto(op, "dimension_numbers", "DotDimensionNumbers")
    sides: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        (
            tuple(numbers.get(f"{side}_batch_dimensions", ())),
            tuple(numbers.get(f"{side}_contracting_dimensions", ())),
        )
        for side in ("lhs", "rhs")
    ]
    (left_batch, left_summed), (right_batch, right_summed) = sides
    left, right = op.tensor(0), op.tensor(1)
    free = [
        tuple(size for axis, size in enumerate(x.shape.dims) if axis not in (*batch, *summed))
        for x, (batch, summed) in zip((left, right), sides, strict=True)
    ]
    batch_dims = tuple(left.shape.dims[axis] for axis in left_batch)
    shape = left.shape.with_dtype(_element(op)).with_dims((*batch_dims, *free[0], *free[1]))
    return op.b.emit(
        "dot",
        left,
        right,
        shape=shape,
        lhs_batch_dims=left_batch,
        lhs_contracting_dims=left_summed,
        rhs_batch_dims=right_batch,
        rhs_contracting_dims=right_summed,
        operand_precision=_precision(op),
    )


def _convolution(op: Op) -> Value:
    """lhs, rhs, strides, padding, dilations of both, number of groups."""
    left, right = op.tensor(0), op.tensor(1)
    strides = op.integers(2, "strides")
    flat = op.integers(3, "padding")
    spread, dilations = (op.integers(n, "dilations") for n in (4, 5))
    groups = op.integer(6, "number of groups")
    labels = read_labels(proto(op, "dimension_numbers", "ConvolutionDimensionNumbers"))
    filter_labels = labels.partition("_")[2].partition("->")[0]
    sizes = [right.shape.static_dims[filter_labels.index(str(n))] for n in range(len(strides))]
    window = tuple(
        WindowDimension(size, stride, low, high, base, dilation)
        for size, stride, low, high, base, dilation in zip(
            sizes, strides, flat[::2], flat[1::2], spread, dilations, strict=True
        )
    )
    element = _element(op)
    made = op.b.emit(
        "convolution",
        op.b.convert_to(left, element),
        op.b.convert_to(right, element),
        window=window,
        dim_labels=labels,
        feature_group_count=groups,
        batch_group_count=int(op.attribute("batch_group_count", 1)),
        operand_precision=_precision(op),
    )
    return made


RULES: dict[str, Rule] = {
    "XlaConv": _convolution,
    "XlaConvV2": _convolution,
    "XlaDot": _dot,
    "XlaDotV2": _dot,
    "XlaEinsum": MATMUL["Einsum"],
    "XlaSvd": LINALG["Svd"],
}

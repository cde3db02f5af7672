# SPDX-License-Identifier: Apache-2.0
"""Ops that Grappler's remapper fused for TensorFlow's kernels, taken apart again.

The remapper runs before the plug-in and makes `_FusedMatMul` of a product, a bias and an
activation. A cluster lowers the parts; TensorFlow's kernel beside it stays fused.

Invariant: the parts compute what the fused op computes, and the last one has its name and outputs.
Source: TensorFlow's `core/grappler/optimizers/remapper.cc`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ingot.frontends.tensorflow.api.modules import node_def_pb2


class _Base(NamedTuple):
    """What is fused with: the op, how many inputs are its own, the attributes that it has."""

    op: str
    inputs: int
    attributes: tuple[str, ...]


_CONV = ("T", "strides", "padding", "explicit_paddings", "data_format", "dilations")
_BATCH = _Base("BatchMatMulV2", 2, ("T", "adj_x", "adj_y"))
_BASES = {
    "_FusedMatMul": _Base("MatMul", 2, ("T", "transpose_a", "transpose_b")),
    "_FusedConv2D": _Base("Conv2D", 2, _CONV),
    "_FusedDepthwiseConv2dNative": _Base("DepthwiseConv2dNative", 2, _CONV),
    "_FusedBatchMatMulV2": _BATCH,
    "_MklFusedBatchMatMulV2": _BATCH,
}
_WITH_INPUT = {"BiasAdd": "BiasAdd", "Add": "AddV2", "Mul": "Mul"}
_ALONE = frozenset({"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"})
_BATCH_NORM = "_FusedBatchNormEx"
_BATCH_NORM_OUTPUTS = 6


def is_fused(op: str) -> bool:
    """Whether an op is one of the remapper's that can be taken apart."""
    return op in _BASES or op == _BATCH_NORM


def parts_of(node: Any) -> list[Any] | None:
    """Return the NodeDefs that a fused node stands for; None if something in it is not known."""
    if node.op == _BATCH_NORM:
        return _batch_norm(node)
    base = _BASES[node.op]
    steps: list[str] = [item.decode() for item in node.attr["fused_ops"].list.s]
    if any(item not in _WITH_INPUT and item not in _ALONE for item in steps) or not steps:
        return None
    data = [name for name in node.input if not name.startswith("^")]
    first = _part(node, base.op, 0, data[: base.inputs], base.attributes)
    parts, rest = [first], data[base.inputs :]
    for at, step in enumerate(steps, 1):
        op: str = _WITH_INPUT.get(step, step)
        made = _part(node, op, at, [parts[-1].name], ("T",))
        if step in _WITH_INPUT:
            made.input.append(rest.pop(0))
        if step == "BiasAdd" and "data_format" in node.attr:
            made.attr["data_format"].CopyFrom(node.attr["data_format"])
        if step == "LeakyRelu":
            made.attr["alpha"].f = node.attr["leakyrelu_alpha"].f
        parts.append(made)
    return _finished(node, parts)


def _batch_norm(node: Any) -> list[Any] | None:
    activation = node.attr["activation_mode"].s.decode()
    if activation not in ("Identity", "Relu"):
        return None
    data = [name for name in node.input if not name.startswith("^")]
    given = ("T", "U", "epsilon", "exponential_avg_factor", "data_format", "is_training")
    norm = _part(node, "FusedBatchNormV3", 0, data[:5], given)
    parts = [norm]
    if node.attr["num_side_inputs"].i:
        parts.append(_part(node, "AddV2", 1, [norm.name, data[5]], ("T",)))
    if activation == "Relu":
        parts.append(_part(node, "Relu", 2, [parts[-1].name], ("T",)))
    others = [f"{norm.name}:{port}" for port in range(1, _BATCH_NORM_OUTPUTS)]
    whole = _part(node, "IdentityN", 3, [parts[-1].name, *others], ())
    kinds = [node.attr["T"].type] + [node.attr["U"].type] * len(others)
    whole.attr["T"].list.type.extend(kinds)
    return _finished(node, [*parts, whole])


def _part(node: Any, op: str, at: int, inputs: list[str], attributes: tuple[str, ...]) -> Any:
    made = node_def_pb2.NodeDef(name=f"{node.name}/{op}_{at}", op=op, input=inputs)
    for name in attributes:
        if name in node.attr:
            made.attr[name].CopyFrom(node.attr[name])
    return made


def _finished(node: Any, parts: list[Any]) -> list[Any]:
    parts[-1].name = node.name
    parts[0].input.extend(name for name in node.input if name.startswith("^"))
    return parts

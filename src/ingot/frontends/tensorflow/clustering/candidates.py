# SPDX-License-Identifier: Apache-2.0
"""Which nodes may be in a cluster: ops with a lowering, of types that can be compiled, no effects.

Variables are read and written outside of clusters, and what keeps a state (random ops, tables,
assertions) stays with TensorFlow, so a cluster is a pure function and may run or not as TensorFlow
likes. Constants are no candidates: each cluster takes a copy of those that it needs.

Source: TensorFlow's `compiler/jit/mark_for_compilation_pass.cc`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ingot.frontends.tensorflow.api.modules import op_def_registry
from ingot.frontends.tensorflow.api.xla_flags import VARIABLE, ClusteringFlags
from ingot.frontends.tensorflow.clustering.fused_ops import is_fused, parts_of
from ingot.frontends.tensorflow.clustering.graph import CONST, Graph
from ingot.frontends.tensorflow.clustering.marks import CLUSTERED, XLA_COMPILE
from ingot.frontends.tensorflow.clustering.old_functions import has_body
from ingot.frontends.tensorflow.graphs.capture import function_attributes
from ingot.frontends.tensorflow.graphs.proto_values import type_name
from ingot.frontends.tensorflow.graphs.variables import CALLS
from ingot.frontends.tensorflow.partitioning.op_families import is_compiled
from ingot.support.diagnostics import FlagError

NUMBERS = frozenset(
    [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "bool",
        "complex64",
        "complex128",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ]
)
"""Element types that may go in and out of a cluster."""

_NEVER = frozenset(
    [
        "Assert",
        "CheckNumerics",
        "CheckNumericsV2",
        "Const",
        "ControlTrigger",
        "NoOp",
        "PlaceholderWithDefault",
    ]
)
_STATEFUL_BY_NAME = ("XlaCallModule",)
"""Ops that TensorFlow calls stateful, and whose rules have no effects."""
_GROUPS: dict[str, str] = {
    "PW": (
        "ComplexAbs Angle Conj Abs Acos Acosh Asin Atan Atanh Ceil Cos Cosh Sin Exp Expm1 Floor "
        "IsFinite IsInf IsNan Inv Reciprocal Log Log1p Invert LogicalNot Neg Rint Round Rsqrt "
        "Sigmoid Sign Sinh Softplus Softsign Sqrt Square Tan Tanh Real Imag Erf Erfc Lgamma "
        "Digamma Add AddV2 Sub Mul Div Atan2 Complex DivNoNan MulNoNan FloorDiv Xlogy Xlog1py "
        "Xdivy FloorMod BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift LogicalAnd LogicalOr "
        "Mod Maximum Minimum RealDiv ReciprocalGrad RsqrtGrad SqrtGrad TruncateDiv TruncateMod "
        "Equal NotEqual Greater GreaterEqual Less LessEqual SigmoidGrad SoftplusGrad SoftsignGrad "
        "TanhGrad Pow SquaredDifference ApproximateEqual AddN Bitcast Cast ClipByValue Const "
        "Empty Identity IdentityN Relu Relu6 ReluGrad Relu6Grad LeakyRelu LeakyReluGrad Elu "
        "EluGrad Selu SeluGrad Select SelectV2 Transpose ConjugateTranspose "
        "PlaceholderWithDefault PreventGradient StopGradient Snapshot"
    ),
    "RED": "All Any Min Max Mean Prod Sum",
    "PWRED": "ArgMax ArgMin DiagPart Softmax SparseSoftmaxCrossEntropyWithLogits LogSoftmax",
    "REDUCEWINDOW": (
        "ArgMax ArgMin DiagPart Softmax SparseSoftmaxCrossEntropyWithLogits LogSoftmax"
    ),
    "REDUCEWINDOWPW": "BiasAddGrad LRN LRNGrad",
    "BN": (
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad "
        "FusedBatchNormGradV2 FusedBatchNormGradV3"
    ),
    "SORT": "TopKV2",
    "MISC": (
        "ApproxTopK BroadcastTo ExpandDims Fill NoOp Range Rank Reshape Shape ShapeN Size Squeeze "
        "Transpose ZerosLike OnesLike BiasAdd BroadcastArgs BroadcastGradientArgs OneHot Concat "
        "ConcatV2 ConcatOffset Const MirrorPad Pack Pad PadV2 Reverse ReverseV2 ReverseSequence "
        "Slice Split SplitV StridedSlice StridedSliceGrad ResourceStridedSliceAssign Tile "
        "InvertPermutation Unpack DeviceIndex TensorStridedSliceUpdate"
    ),
}


def ops_to_cluster(names: Iterable[str]) -> frozenset[str]:
    """Return the op types that a list of ops and groups stands for.

    Raises:
        FlagError: INGOT0600, a name is neither a group nor an op that can be compiled.
    """
    found: set[str] = set()
    for name in names:
        if name == "FUSIBLE":
            found.update(*(group.split() for group in _GROUPS.values()))
        elif name in _GROUPS:
            found.update(_GROUPS[name].split())
        elif is_compiled(name):
            found.add(name)
        else:
            raise FlagError(
                f"The operation '{name}' passed to --tf_xla_ops_to_cluster in {VARIABLE} "
                "is not supported by Ingot",
                hint="give op types of docs/tensorflow_ops.md, or " + ", ".join(_GROUPS),
            )
    return frozenset(found)


class Candidates:
    """Decides which nodes of a graph may be in a cluster."""

    def __init__(self, graph: Graph, flags: ClusteringFlags) -> None:
        """Look at `graph`, within the limits that flags set on ops."""
        self._graph = graph
        self._only = ops_to_cluster(flags.ops_to_cluster)
        self._not = frozenset(flags.cluster_exclude_ops)

    def accepts(self, number: int) -> bool:
        """Whether a node may be in a cluster."""
        node = self._graph.nodes[number]
        if XLA_COMPILE in node.attr and not node.attr[XLA_COMPILE].b:
            return False
        if (self._only and node.op not in self._only) or node.op in self._not:
            return False
        if CLUSTERED in node.attr or (node.device and ":CPU:" not in node.device.upper()):
            return False
        return self._is_compilable(number) and self._has_numbers(number)

    def _is_compilable(self, number: int) -> bool:
        node = self._graph.nodes[number]
        if node.op == "Identity" and self._graph.followers[number]:
            return False  # It starts the branch or the iteration of the nodes that it controls.
        return has_pure_rule(node, self._graph.library)

    def _has_numbers(self, number: int) -> bool:
        graph = self._graph
        types = graph.types[number]
        if not types or not NUMBERS.issuperset(types):
            return False
        return all(
            graph.type_of(item) in NUMBERS and not graph.is_reference(item)
            for item in graph.inputs[number]
        )


def has_pure_rule(node: Any, library: dict[str, Any]) -> bool:
    """Whether a node, with all functions that it calls, can be compiled and has no effects."""
    calls: dict[str, list[str]] = {}
    pending = [("", node)]
    while pending:
        caller, item = pending.pop()
        if item.op in (CONST, "NoOp") and item is not node:
            continue
        if item.op not in CALLS and item.op not in library:
            if not (parts_of(item) is not None if is_fused(item.op) else _op_is_pure(item.op)):
                return False
            continue
        for name in called_functions(item, library):
            function = library.get(name)
            if function is None or not (has_body(function) and _has_numbers(function)):
                return False
            if name not in calls:
                calls[name] = []
                pending.extend((name, inner) for inner in function.node_def)
            if caller:
                calls[caller].append(name)
    return not _has_cycle(calls)


def _has_cycle(calls: Mapping[str, Sequence[str]]) -> bool:
    """Whether a function calls itself, by way of others or not."""
    try:
        TopologicalSorter(calls).prepare()
    except CycleError:
        return True
    return False


def called_functions(node: Any, library: Container[str]) -> list[str]:
    """Return the names of the functions that a node calls: its op, or among its attributes."""
    names: list[str] = [node.op] if node.op in library else []
    return [*names, *(item.name for item in function_attributes(node))]


def _has_numbers(function: Any) -> bool:
    """Whether a function takes and gives numbers alone."""
    signature = function.signature
    kinds = [item.type for item in (*signature.input_arg, *signature.output_arg)]
    return all(type_text(kind) in NUMBERS for kind in kinds)


@lru_cache(maxsize=64)
def type_text(number: int) -> str:
    """Return TensorFlow's name of an element type."""
    return type_name(number).name if number else ""


@lru_cache(maxsize=4096)
def _op_is_pure(op: str) -> bool:
    if op in _NEVER or not is_compiled(op):
        return False
    definition = op_def_registry.get(op)
    if definition is None or not definition.output_arg:
        return False
    if definition.is_stateful and op not in _STATEFUL_BY_NAME:
        return False
    return not any(
        item.type and type_text(item.type) not in NUMBERS for item in definition.input_arg
    )

# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own `Xla*` ops: HLO instructions that a program asks for by name.

Those that call functions are in `calls`, products and convolutions in `products`.
Source: TensorFlow's `compiler/tf2xla/ops/xla_ops.cc` and `compiler/tf2xla/kernels/xla_*.cc`.
"""

from __future__ import annotations

import json
from typing import Any

from ingot.formats.hlo_proto.wire import decode
from ingot.frontends.tensorflow.graphs.captured import PartialShape
from ingot.frontends.tensorflow.lowering.context.computed_sizes import without_bound
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value, element_of
from ingot.hlo.dtype import S32, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_GENERATORS = {0: "rng_default", 1: "rng_three_fry", 2: "rng_philox", 3: "rng_default"}


def proto(op: Op, name: str, kind: str) -> dict[str, Any]:
    """Return an attribute that is a serialized message of `kind`."""
    value = op.attribute(name, b"")
    return decode(value.encode() if isinstance(value, str) else bytes(value), kind)


def _scalars(op: Op, number: int) -> list[Instruction]:
    """Return the elements of a vector operand as scalars."""
    b, vector = op.b, op.tensor(number)
    (count,) = vector.shape.static_dims
    return [b.reshape_to(b.sliced(vector, 0, n, n + 1), ()) for n in range(count)]


def _dynamic_slice(op: Op) -> Value:
    starts, sizes = _scalars(op, 1), op.sizes(2, "sizes")
    if len(starts) != len(sizes):
        raise op.error(
            f"the slice has mismatched number of slice sizes ({len(sizes)}) and number of start "
            f"indices ({len(starts)})"
        )
    return op.b.emit("dynamic-slice", op.tensor(0), *starts, dynamic_slice_sizes=sizes)


def _dynamic_update_slice(op: Op) -> Value:
    return op.b.emit("dynamic-update-slice", op.tensor(0), op.tensor(1), *_scalars(op, 2))


def _barrier(op: Op) -> tuple[Value, ...]:
    held = op.b.emit("opt-barrier", op.b.tuple(*op.tensors()))
    return tuple(op.b.element_of(held, number) for number in range(len(op)))


def _pad(op: Op) -> Value:
    parts = (op.integers(n, "padding") for n in (2, 3, 4))
    return op.b.emit("pad", op.tensor(0), op.tensor(1), padding=tuple(zip(*parts, strict=True)))


def _reduce_precision(op: Op) -> Value:
    return op.b.emit(
        "reduce-precision",
        op.tensor(0),
        exponent_bits=int(op.attribute("exponent_bits")),
        mantissa_bits=int(op.attribute("mantissa_bits")),
    )


def _itself(op: Op) -> Value:
    """One device, or a hint: the value itself."""
    return op.values[0]


def _all_reduce(op: Op) -> Value:
    """One device reduces over itself alone."""
    groups = op.array(1, "group assignment")
    if groups.ndim != 2 or groups.shape[1] > 1:
        raise op.error("a collective over several devices, in a function that runs on one")
    return op.values[0]


def _replica(op: Op) -> Value:
    return op.b.constant(0, S32)


def _gather(op: Op) -> Value:
    numbers = proto(op, "dimension_numbers", "GatherDimensionNumbers")
    return op.b.emit(
        "gather",
        op.tensor(0),
        op.tensor(1),
        offset_dims=tuple(numbers.get("offset_dims", ())),
        collapsed_slice_dims=tuple(numbers.get("collapsed_slice_dims", ())),
        start_index_map=tuple(numbers.get("start_index_map", ())),
        operand_batching_dims=tuple(numbers.get("operand_batching_dims", ())),
        start_indices_batching_dims=tuple(numbers.get("start_indices_batching_dims", ())),
        index_vector_dim=int(numbers.get("index_vector_dim", 0)),
        slice_sizes=op.sizes(2, "slice sizes"),
        indices_are_sorted=bool(op.attribute("indices_are_sorted", False)),
    )


def _broadcast_helper(op: Op) -> tuple[Value, ...]:
    """Reshape the operand of lower rank so that NumPy's broadcasting does the rest."""
    left, right = op.tensor(0), op.tensor(1)
    axes = op.integers(2, "broadcast dimensions")
    if not axes:
        if left.shape.rank != right.shape.rank and 0 not in (left.shape.rank, right.shape.rank):
            raise op.mistake(
                "If broadcast_dims is empty, both arguments must have equal rank; argument shapes "
                f"{list(left.shape.dims)} and {list(right.shape.dims)}"
            )
        return left, right
    low, high = sorted((left, right), key=lambda x: x.shape.rank)
    if len(axes) != low.shape.rank:
        raise op.mistake("broadcast_dims must have size equal to the smaller argument rank")
    sizes = dict(zip(axes, low.shape.dims, strict=True))
    dims = tuple(sizes.get(axis, 1) for axis in range(high.shape.rank))
    wide = op.b.reshape_to(low, dims)
    return (wide, right) if low is left else (left, wide)


def _generator_bits(op: Op) -> tuple[Value, ...]:
    algorithm = op.integer(0, "random algorithm")
    if algorithm not in _GENERATORS:
        raise op.error(f"random algorithm {algorithm} is not known")
    state = op.b.convert_to(op.tensor(1), U64)
    bits = Shape.array(op.result(1), op.sizes(2, "shape"))
    made = op.b.emit(
        "rng-bit-generator",
        state,
        shape=Shape.tuple((state.shape, bits)),
        algorithm=_GENERATORS[algorithm],
    )
    return op.b.element_of(made, 0), op.b.element_of(made, 1)


def _set_size(op: Op) -> Value:
    """operand, dimension, size: only the first elements count."""
    axis = op.integer(1, "dimension")
    size = op.b.convert_to(op.b.reshape_to(op.tensor(2), ()), S32)
    return op.b.emit("set-dimension-size", op.tensor(0), size, dimensions=(axis,))


def _remove_size(op: Op) -> Value:
    """The whole operand counts again."""
    return without_bound(op.b, op.tensor(0), op.integer(1, "dimension"))


def _shape_of(op: Op, found: Any, element: Any) -> Shape:
    if not isinstance(found, PartialShape) or found.shape is None or None in found.shape:
        raise op.error("a custom call needs the whole shape of its result")
    return Shape.array(element, tuple(int(size or 0) for size in found.shape))


def _custom_call(op: Op) -> Value:
    shape = _shape_of(op, op.attribute("shape"), op.result())
    return _called(op, str(op.attribute("target_name")), shape)


def _custom_call_v2(op: Op) -> tuple[Value, ...]:
    """Several results, effects; TensorFlow gives it the interface that returns a status."""
    elements = [element_of(kind.name) for kind in op.attribute("result_dtypes")]
    shapes = [
        _shape_of(op, found, element)
        for found, element in zip(op.attribute("result_shapes"), elements, strict=True)
    ]
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple(tuple(shapes))
    made = _called(
        op,
        str(op.attribute("call_target_name")),
        shape,
        custom_call_has_side_effect=bool(op.attribute("has_side_effect")),
        api_version="API_VERSION_STATUS_RETURNING_UNIFIED",
    )
    if len(shapes) == 1:
        return (made,)
    return tuple(op.b.element_of(made, number) for number in range(len(shapes)))


def _called(op: Op, target: str, shape: Shape, **attributes: Any) -> Instruction:
    made = op.b.emit(
        "custom-call", *op.tensors(), shape=shape, custom_call_target=target, **attributes
    )
    config = op.attribute("backend_config", "")
    if config:
        text = config.decode() if isinstance(config, bytes) else str(config)
        made.extra["backend_config"] = json.dumps(text)
    return made


RULES: dict[str, Rule] = {
    "XlaAllReduce": _all_reduce,
    "XlaBroadcastHelper": _broadcast_helper,
    "XlaCustomCall": _custom_call,
    "XlaCustomCallV2": _custom_call_v2,
    "XlaDynamicSlice": _dynamic_slice,
    "XlaDynamicUpdateSlice": _dynamic_update_slice,
    "XlaGather": _gather,
    "XlaOptimizationBarrier": _barrier,
    "XlaPad": _pad,
    "XlaReducePrecision": _reduce_precision,
    "XlaReduceScatter": _all_reduce,
    "XlaRemoveDynamicDimensionSize": _remove_size,
    "XlaReplicaId": _replica,
    "XlaRngBitGenerator": _generator_bits,
    "XlaSetBound": _itself,
    "XlaSetDynamicDimensionSize": _set_size,
    "XlaSharding": _itself,
    "XlaSpmdFullToShardShape": _itself,
    "XlaSpmdShardToFullShape": _itself,
}

"""TensorFlow's own `Xla*` ops: HLO instructions that a program asks for by name."""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.instruction import Instruction


def _scalars(op: Op, number: int) -> list[Instruction]:
    """Return the elements of a vector operand as scalars."""
    b, vector = op.b, op.tensor(number)
    (count,) = vector.shape.static_dims
    return [b.reshape_to(b.sliced(vector, 0, n, n + 1), ()) for n in range(count)]


def _dynamic_slice(op: Op) -> Value:
    return op.b.emit(
        "dynamic-slice", op.tensor(0), *_scalars(op, 1), dynamic_slice_sizes=op.sizes(2, "sizes")
    )


def _dynamic_update_slice(op: Op) -> Value:
    return op.b.emit("dynamic-update-slice", op.tensor(0), op.tensor(1), *_scalars(op, 2))


def _barrier(op: Op) -> tuple[Value, ...]:
    held = op.b.optimization_barrier(op.b.tuple(*op.tensors()))
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


def _sharding(op: Op) -> Value:
    """One device: the value itself."""
    return op.values[0]


RULES: dict[str, Rule] = {
    "XlaDynamicSlice": _dynamic_slice,
    "XlaDynamicUpdateSlice": _dynamic_update_slice,
    "XlaOptimizationBarrier": _barrier,
    "XlaPad": _pad,
    "XlaReducePrecision": _reduce_precision,
    "XlaSharding": _sharding,
    "XlaSpmdFullToShardShape": _sharding,
    "XlaSpmdShardToFullShape": _sharding,
}

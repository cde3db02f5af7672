# SPDX-License-Identifier: Apache-2.0
"""`Xla*` ops that call functions: reductions, windows, sorts, scatters, branches, loops.

A function that is called on scalars (a reducer, a comparator) becomes an HLO computation of its
own, once for each set of element types. Source: TensorFlow's `compiler/tf2xla/kernels/xla_*.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.control_flow import RULES as CONTROL
from ingot.frontends.tensorflow.lowering.walk import graph
from ingot.frontends.tensorflow.lowering.xla_ops.instructions import proto
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension


def _scalar_function(op: Op, attribute: str, elements: Sequence[DType]) -> Computation:
    """Return the function that an attribute names, as a computation of scalars."""
    callee = op.scope.library[op.function(attribute)]
    key = (callee.name, ",".join(element.name for element in elements))
    reducers = op.b.reducers
    if key not in reducers:
        if len(callee.inputs) != len(elements):
            raise op.error(f"the {attribute} takes {len(callee.inputs)} arguments")
        frame = Frame(callee.name, op.b.program)
        b = frame.builder
        given = [b.parameter(n, Shape.array(item, ())) for n, item in enumerate(elements)]
        results = [frame.tensor(value) for value in graph.run(callee, frame, given)]
        reducers[key] = b.build(results[0] if len(results) == 1 else b.tuple(*results))
    return reducers[key]


def _parts(op: Op, made: Instruction, count: int) -> tuple[Value, ...]:
    return (made,) if count == 1 else tuple(op.b.element_of(made, n) for n in range(count))


def _reduce(op: Op) -> tuple[Value, ...]:
    """N inputs, N initial values; the reducer takes N values so far and N new ones."""
    count = len(op) // 2
    operands = op.tensors()
    elements = [item.shape.dtype for item in operands[:count]]
    made = op.b.emit(
        "reduce",
        *operands,
        dimensions=tuple(int(axis) for axis in op.attribute("dimensions_to_reduce")),
        to_apply=_scalar_function(op, "reducer", [*elements, *elements]),
    )
    return _parts(op, made, count)


def _pairs(op: Op, number: int) -> tuple[tuple[int, int], ...]:
    flat = op.integers(number, "padding")
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _reduce_window(op: Op) -> Value:
    """input, initial value, then the window: sizes, strides, two dilations, padding."""
    x, start = op.tensor(0), op.tensor(1)
    sizes, strides, base, dilations = (op.integers(n, "window") for n in range(2, 6))
    window: Window = tuple(
        WindowDimension(size, stride, low, high, spread, dilation)
        for size, stride, (low, high), spread, dilation in zip(
            sizes, strides, _pairs(op, 6), base, dilations, strict=True
        )
    )
    reducer = _scalar_function(op, "computation", [x.shape.dtype] * 2)
    return op.b.emit("reduce-window", x, start, window=window, to_apply=reducer)


def _select_and_scatter(op: Op) -> Value:
    """operand, sizes, strides, padding, source, initial value."""
    x, source, start = op.tensor(0), op.tensor(4), op.tensor(5)
    sizes, strides = (op.integers(n, "window") for n in (1, 2))
    window = tuple(
        WindowDimension(size, stride, *pad)
        for size, stride, pad in zip(sizes, strides, _pairs(op, 3), strict=True)
    )
    pair = [x.shape.dtype] * 2
    return op.b.emit(
        "select-and-scatter",
        x,
        source,
        start,
        window=window,
        select=_scalar_function(op, "select", pair),
        scatter=_scalar_function(op, "scatter", pair),
    )


def _scatter(op: Op) -> Value:
    numbers = proto(op, "dimension_numbers", "ScatterDimensionNumbers")
    x = op.tensor(0)
    return op.b.emit(
        "scatter",
        *op.tensors(),
        update_window_dims=tuple(numbers.get("update_window_dims", ())),
        inserted_window_dims=tuple(numbers.get("inserted_window_dims", ())),
        scatter_dims_to_operand_dims=tuple(numbers.get("scatter_dims_to_operand_dims", ())),
        input_batching_dims=tuple(numbers.get("input_batching_dims", ())),
        scatter_indices_batching_dims=tuple(numbers.get("scatter_indices_batching_dims", ())),
        index_vector_dim=int(numbers.get("index_vector_dim", 0)),
        indices_are_sorted=bool(op.attribute("indices_are_sorted", False)),
        to_apply=_scalar_function(op, "update_computation", [x.shape.dtype] * 2),
    )


def _sort(op: Op) -> tuple[Value, ...]:
    """Keys, and for `XlaKeyValueSort` values, along the last dimension."""
    operands = op.tensors()
    made = sort_by_first(op.b, operands, operands[0].shape.rank - 1)
    return _parts(op, made, len(operands))


def _variadic_sort(op: Op) -> tuple[Value, ...]:
    """Operands, then the dimension; the comparator takes two elements of each operand."""
    operands = op.tensors(0, len(op) - 1)
    axis = op.axis(len(op) - 1, operands[0].shape.rank)
    pairs = [item.shape.dtype for item in operands for _ in range(2)]
    made = op.b.emit(
        "sort",
        *operands,
        dimensions=(axis,),
        is_stable=bool(op.attribute("is_stable", False)),
        to_apply=_scalar_function(op, "comparator", pairs),
    )
    return _parts(op, made, len(operands))


RULES: dict[str, Rule] = {
    "XlaIf": CONTROL["If"],
    "XlaKeyValueSort": _sort,
    "XlaReduce": _reduce,
    "XlaReduceWindow": _reduce_window,
    "XlaScatter": _scatter,
    "XlaSelectAndScatter": _select_and_scatter,
    "XlaSort": _sort,
    "XlaVariadicReduce": _reduce,
    "XlaVariadicReduceV2": _reduce,
    "XlaVariadicSort": _variadic_sort,
    "XlaWhile": CONTROL["While"],
}

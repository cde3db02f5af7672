# SPDX-License-Identifier: Apache-2.0
"""Reductions: of dimensions and of windows, with any computation and several operands; `map`.

Source: StableHLO specification `reduce`, `reduce_window`, `select_and_scatter`, `map`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import PRED
from ingot.hlo.interfaces import FusionClass, RegionKind
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.opset.regions import require_reducer, require_region
from ingot.hlo.opset.windows import require_window
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.instruction import Instruction

FAMILY = "reduction"


@record
class ReduceAttributes:
    """Attributes of `reduce` and `map`: dimensions and the scalar computation."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    to_apply: Computation = attribute(Codec.COMPUTATION)


@record
class ReduceWindowAttributes:
    """Attributes of `reduce-window`: a window over every dimension, and the scalar computation."""

    window: Window = attribute(Codec.WINDOW)
    to_apply: Computation = attribute(Codec.COMPUTATION)


@record
class SelectAndScatterAttributes:
    """Attributes of `select-and-scatter`: how to select an element, and how to combine sources."""

    window: Window = attribute(Codec.WINDOW)
    select: Computation = attribute(Codec.COMPUTATION)
    scatter: Computation = attribute(Codec.COMPUTATION)


def _infer_reduce(view: OpView) -> Shape:
    count = len(view.operands) // 2
    require(
        len(view.operands) == 2 * count and count > 0,
        "reduce_c3",
        "reduce takes as many initial values as inputs",
    )
    inputs, starts = view.operands[:count], view.operands[count:]
    first = inputs[0]
    dimensions = view.attributes.dimensions
    require(len(set(dimensions)) == len(dimensions), "reduce_c5", "dimension numbers repeat")
    if not all(0 <= dim < first.rank for dim in dimensions):
        require(False, "reduce_c4", f"{first} does not have all of the dimensions {dimensions}")
    kept = tuple(size for dim, size in enumerate(first.dims) if dim not in dimensions)
    for given in inputs:
        if given.dims != first.dims:
            require(
                False, "reduce_c1", f"reduce takes inputs of one shape, got {first} and {given}"
            )
    reducer: Computation = view.attributes.to_apply
    require_reducer("reduce_c6", reducer, inputs, starts, "reduce_c2")
    shapes = tuple(given.with_dims(kept) for given in inputs)
    return Shape.tuple(shapes) if count > 1 or reducer.root.shape.is_tuple else shapes[0]


def _counts(window: Window, shape: Shape) -> tuple[int | Dim, ...]:
    return tuple(one.count(size) for one, size in zip(window, shape.dims, strict=True))


def _infer_reduce_window(view: OpView) -> Shape:
    count = len(view.operands) // 2
    require(
        len(view.operands) == 2 * count and count > 0,
        "reduce_window_c1",
        "reduce-window takes as many initial values as inputs",
    )
    inputs, starts = view.operands[:count], view.operands[count:]
    first, window = inputs[0], view.attributes.window
    require(
        len(window) == first.rank,
        "reduce_window_c4",
        f"a window of {len(window)} dimensions does not fit {first}",
    )
    require_window("reduce_window", window, ("c5", "c7", "c9", "c11"))
    for given in inputs:
        require(
            given.dims == first.dims,
            "reduce_window_c2",
            f"reduce-window takes inputs of one shape, got {first} and {given}",
        )
    reducer: Computation = view.attributes.to_apply
    require_reducer("reduce_window_c13", reducer, inputs, starts, "reduce_window_c3")
    dims = _counts(window, first)
    shapes = tuple(given.with_dims(dims) for given in inputs)
    return Shape.tuple(shapes) if reducer.root.shape.is_tuple else shapes[0]


def _infer_select_and_scatter(view: OpView) -> Shape:
    operand, source, start = view.operands
    window = view.attributes.window
    require(
        len(window) == operand.rank, "select_and_scatter_c4", f"the window does not fit {operand}"
    )
    require_window("select_and_scatter", window, ("c5", "c7", "dilation", "dilation"))
    message = f"source {source} does not have an element for each window of {operand}"
    require(source.dtype is operand.dtype, "select_and_scatter_c1", message)
    require(source.dims == _counts(window, operand), "select_and_scatter_c2", message)
    fits = start.is_scalar and start.dtype is operand.dtype
    require(
        fits,
        "select_and_scatter_c3",
        f"initial value {start} is not a scalar of the type of {operand}",
    )
    pair = (operand.dtype, operand.dtype)
    require_region("select_and_scatter_c9", view.attributes.select, pair, (PRED,))
    require_region("select_and_scatter_c10", view.attributes.scatter, pair, (operand.dtype,))
    return operand


def _infer_map(view: OpView) -> Shape:
    mapped: Computation = view.attributes.to_apply
    for given in view.operands:
        require(
            given.dims == view.operands[0].dims,
            "map_c1",
            f"map takes operands of one shape, got {view.operands[0]} and {given}",
        )
    result = mapped.root.shape
    require(result.is_scalar, "map_c4", f"computation {mapped.name} gives {result}, not a scalar")
    require_region("map_c4", mapped, [given.dtype for given in view.operands], (result.dtype,))
    return view.operands[0].with_dtype(result.dtype)


def _reduce_flops(reduction: Instruction) -> int | Dim:
    return reduction.operands[0].shape.size


def _reduce_window_flops(reduction: Instruction) -> int | Dim:
    window = reduction.as_(ReduceWindowAttributes).window
    (_, result), *_ = reduction.shape.leaves()
    return result.size * product(one.size for one in window)


define("reduce", family=FAMILY, arity=(2, None), infer=_infer_reduce, attributes=ReduceAttributes,
       results=("c7", "c8"), counts="c3",
       fusion=FusionClass.REDUCTION, regions=RegionKind.ELEMENT, flops=_reduce_flops,
       doc="folds dimensions with a computation; the order is not defined")  # fmt: skip
define("map", family=FAMILY, arity=(1, None), infer=_infer_map, attributes=ReduceAttributes,
       results=("c1", "c4"), counts="c2", regions=RegionKind.ELEMENT,
       doc="applies a scalar computation to each element")  # fmt: skip
define("reduce-window", family=FAMILY, arity=(2, None), infer=_infer_reduce_window,
       attributes=ReduceWindowAttributes, results=("c15", "c16"), counts="c1",
       fusion=FusionClass.REDUCTION, regions=RegionKind.ELEMENT, flops=_reduce_window_flops,
       doc="folds each window")  # fmt: skip
define("select-and-scatter", family=FAMILY, arity=3, infer=_infer_select_and_scatter,
       attributes=SelectAndScatterAttributes, results=("c11", "c12"),
       regions=RegionKind.ELEMENT,
       doc="each source value joined to the chosen element of its window")  # fmt: skip

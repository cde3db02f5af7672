"""Reductions: `reduce` with any computation and several operands, `map`.

Source: StableHLO specification `reduce`, `map`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.hlo.computation import Computation
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape

FAMILY = "reduction"


@dataclass(frozen=True, slots=True)
class ReduceAttributes:
    """Attributes of `reduce` and `map`: dimensions and the scalar computation."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    to_apply: Computation = attribute(Codec.COMPUTATION)


def _infer_reduce(view: OpView) -> Shape:
    count = len(view.operands) // 2
    require(len(view.operands) == 2 * count and count > 0, "reduce_c1", "reduce takes pairs")
    inputs, starts = view.operands[:count], view.operands[count:]
    first = inputs[0]
    places = view.attributes.dimensions
    require(len(set(places)) == len(places), "reduce_c5", "dimension numbers repeat")
    require(
        all(0 <= p < first.rank for p in places), "reduce_c4", f"dimensions {places} of {first}"
    )
    kept = tuple(size for place, size in enumerate(first.dims) if place not in places)
    reducer: Computation = view.attributes.to_apply
    require(
        len(reducer.parameters) == 2 * count,
        "reduce_c6",
        f"reducer {reducer.name} takes {2 * count}",
    )
    for given, start in zip(inputs, starts, strict=True):
        require(given.dims == first.dims, "reduce_c1", f"reduce of {first} and {given}")
        require(start.is_scalar, "reduce_c6", f"initial value {start}")
    result = reducer.root.shape
    elements = result.elements if result.is_tuple else (result,)
    require(len(elements) == count, "reduce_c6", f"reducer {reducer.name} gives {result}")
    shapes = tuple(Shape.array(element.dtype, kept) for element in elements)
    return Shape.tuple(shapes) if count > 1 or result.is_tuple else shapes[0]


def _infer_map(view: OpView) -> Shape:
    mapped: Computation = view.attributes.to_apply
    require(len(mapped.parameters) == len(view.operands), "map_c4", f"map of {mapped.name}")
    for given in view.operands:
        require(given.dims == view.operands[0].dims, "map_c1", f"map of {given}")
    return view.operands[0].with_dtype(mapped.root.shape.dtype)


define("reduce", family=FAMILY, arity=(2, None), infer=_infer_reduce, attributes=ReduceAttributes,
       doc="folds dimensions with a computation; the order is not defined")  # fmt: skip
define("map", family=FAMILY, arity=(1, None), infer=_infer_map, attributes=ReduceAttributes,
       doc="applies a scalar computation to each element")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Indexing ops: elements moved by computed indices, and sorting.

Gather and scatter use the same dimension numbers under different names; `IndexMap` holds them under
one set of names, for the constraints here and for every layer that lowers them.

Source: StableHLO specification `gather`, `scatter`, `sort` (labels as there); XLA's text names.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.interfaces import FusionClass, RegionKind, Trait
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.opset.regions import require_region
from ingot.hlo.shape import Shape
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.instruction import Instruction

FAMILY = "indexing"


@record
class IndexMap:
    """How windows of an operand relate to an array of indices; gather's and scatter's common part.

    Attributes:
        window_dims: dimensions of the windowed array (gather's result, scatter's updates) that run
            over the window; its other dimensions run over the indices.
        inserted_dims: operand dimensions of window size 1 that the windowed array leaves out.
        index_to_operand: operand dimension that each component of an index vector moves along.
        operand_batching_dims: operand dimensions that run along with the indices' own.
        indices_batching_dims: dimensions of the indices that they run along with.
        index_vector_dim: dimension of the indices that holds index vectors (the rank: scalars).
    """

    window_dims: tuple[int, ...]
    inserted_dims: tuple[int, ...]
    index_to_operand: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    indices_batching_dims: tuple[int, ...]
    index_vector_dim: int

    def operand_window_dims(self, rank: int) -> tuple[int, ...]:
        """Return the operand dimensions that `window_dims` run over, of an operand of `rank`."""
        left_out = (*self.inserted_dims, *self.operand_batching_dims)
        return tuple(dim for dim in range(rank) if dim not in left_out)

    def indices_batch_dims(self, rank: int) -> tuple[int, ...]:
        """Return the dimensions of indices of `rank` that count windows, in order."""
        return tuple(dim for dim in range(rank) if dim != self.index_vector_dim)


@record(kw_only=True)
class GatherAttributes:
    """Attributes of `gather`, flattened as in HLO text."""

    offset_dims: tuple[int, ...] = attribute(Codec.INTS)
    collapsed_slice_dims: tuple[int, ...] = attribute(Codec.INTS)
    start_index_map: tuple[int, ...] = attribute(Codec.INTS)
    operand_batching_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    start_indices_batching_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    index_vector_dim: int = attribute(Codec.INT)
    slice_sizes: tuple[int | Dim, ...] = attribute(Codec.INTS)
    indices_are_sorted: bool = attribute(Codec.BOOL, False)

    @property
    def index_map(self) -> IndexMap:
        """The dimension numbers under the names common to gather and scatter."""
        return IndexMap(
            self.offset_dims,
            self.collapsed_slice_dims,
            self.start_index_map,
            self.operand_batching_dims,
            self.start_indices_batching_dims,
            self.index_vector_dim,
        )


@record(kw_only=True)
class ScatterAttributes:
    """Attributes of `scatter`, flattened as in HLO text."""

    update_window_dims: tuple[int, ...] = attribute(Codec.INTS)
    inserted_window_dims: tuple[int, ...] = attribute(Codec.INTS)
    scatter_dims_to_operand_dims: tuple[int, ...] = attribute(Codec.INTS)
    input_batching_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    scatter_indices_batching_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    index_vector_dim: int = attribute(Codec.INT)
    indices_are_sorted: bool = attribute(Codec.BOOL, False)
    unique_indices: bool = attribute(Codec.BOOL, False)
    to_apply: Computation = attribute(Codec.COMPUTATION)

    @property
    def index_map(self) -> IndexMap:
        """The dimension numbers under the names common to gather and scatter."""
        return IndexMap(
            self.update_window_dims,
            self.inserted_window_dims,
            self.scatter_dims_to_operand_dims,
            self.input_batching_dims,
            self.scatter_indices_batching_dims,
            self.index_vector_dim,
        )


@record(kw_only=True)
class SortAttributes:
    """Attributes of `sort`: `to_apply` takes (lhs, rhs) of every operand and says "lhs first"."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    is_stable: bool = attribute(Codec.BOOL, False)
    to_apply: Computation = attribute(Codec.COMPUTATION)


@record
class TopKAttributes:
    """Attributes of `topk`."""

    k: int = attribute(Codec.INT)
    largest: bool = attribute(Codec.BOOL, True)


# Labels of the StableHLO specification for the constraints of both ops on an IndexMap.
_GATHER = {
    "rank": "gather_c1", "vector": "gather_c2", "map_size": "gather_c3", "window": "gather_c4",
    "window_range": "gather_c5", "inserted_unique": "gather_c6", "inserted_sorted": "gather_c7",
    "inserted_range": "gather_c8", "batching_sorted": "gather_c10", "batching_range": "gather_c11",
    "indices_unique": "gather_c13", "indices_range": "gather_c14", "indices_vector": "gather_c15",
    "batching_count": "gather_c16", "batching_sizes": "gather_c17", "map_unique": "gather_c18",
    "map_range": "gather_c19",
}  # fmt: skip
_SCATTER = {
    "rank": "scatter_c2", "vector": "scatter_c22", "map_size": "scatter_c19",
    "window": "scatter_c7", "window_range": "scatter_c8", "inserted_unique": "scatter_c9",
    "inserted_sorted": "scatter_c10", "inserted_range": "scatter_c11",
    "batching_sorted": "scatter_c12", "batching_range": "scatter_c13",
    "indices_unique": "scatter_c14", "indices_range": "scatter_c15",
    "indices_vector": "scatter_c16", "batching_count": "scatter_c17",
    "batching_sizes": "scatter_c18", "map_unique": "scatter_c20", "map_range": "scatter_c21",
}  # fmt: skip


def is_ascending(dimensions: tuple[int, ...]) -> bool:
    """Whether dimension numbers are in ascending order, none twice."""
    return all(first < second for first, second in pairwise(dimensions))


def _within(dimensions: tuple[int, ...], rank: int) -> bool:
    return all(0 <= dim < rank for dim in dimensions)


def _unique(dimensions: tuple[int, ...]) -> bool:
    return len(set(dimensions)) == len(dimensions)


_INDEX_MAP_FAULTS = {
    "rank": "window, inserted and batching dimensions are not all dimensions of the operand",
    "vector": "index_vector_dim is out of range",
    "window": "window dimensions are not in ascending order",
    "window_range": "a window dimension is out of range",
    "inserted_unique": "a dimension is inserted or batching twice",
    "inserted_sorted": "collapsed or inserted dimensions are not in ascending order",
    "inserted_range": "a collapsed or inserted dimension is out of range",
    "batching_sorted": "batching dimensions of the operand are not in ascending order",
    "batching_range": "a batching dimension of the operand is out of range",
    "indices_unique": "a batching dimension of the indices is named twice",
    "indices_range": "a batching dimension of the indices is out of range",
    "indices_vector": "index_vector_dim is a batching dimension of the indices",
    "batching_count": "operand and indices have different numbers of batching dimensions",
    "map_unique": "a dimension of the operand is indexed twice",
    "map_range": "an indexed dimension of the operand is out of range",
}
"""What is wrong with dimension numbers, by the name of the fact that does not hold."""


def _check_map(
    labels: dict[str, str], numbers: IndexMap, operand: Shape, indices: Shape, windowed_rank: int
) -> None:
    """Check the constraints of gather and scatter on their dimension numbers."""
    rank = len(numbers.window_dims) + len(numbers.inserted_dims)
    rank += len(numbers.operand_batching_dims)
    inserted = (*numbers.inserted_dims, *numbers.operand_batching_dims)
    mapped = (*numbers.index_to_operand, *numbers.operand_batching_dims)
    batching, along = numbers.operand_batching_dims, numbers.indices_batching_dims
    vector = numbers.index_vector_dim
    facts = {
        "rank": rank == operand.rank,
        "vector": 0 <= vector <= indices.rank,
        "window": is_ascending(numbers.window_dims),
        "window_range": _within(numbers.window_dims, windowed_rank),
        "inserted_unique": _unique(inserted),
        "inserted_sorted": is_ascending(numbers.inserted_dims),
        "inserted_range": _within(numbers.inserted_dims, operand.rank),
        "batching_sorted": is_ascending(batching),
        "batching_range": _within(batching, operand.rank),
        "indices_unique": _unique(along),
        "indices_range": _within(along, indices.rank),
        "indices_vector": vector not in along,
        "batching_count": len(batching) == len(along),
        "map_unique": _unique(mapped),
        "map_range": _within(numbers.index_to_operand, operand.rank),
    }
    for name, holds in facts.items():
        if not holds:
            message = f"{_INDEX_MAP_FAULTS[name]}; the operand is {operand}, the indices {indices}"
            require(False, labels[name], message)
    components = indices.dims[vector] if vector < indices.rank else 1
    if components != len(numbers.index_to_operand):
        message = (
            f"{len(numbers.index_to_operand)} mapped dimensions, but index vectors of {components}"
        )
        require(False, labels["map_size"], message)
    for one, other in zip(batching, along, strict=True):
        if operand.dims[one] != indices.dims[other]:
            message = f"batching dimensions {one} of {operand} and {other} of {indices} differ"
            require(False, labels["batching_sizes"], message)


def _combine(
    window_dims: tuple[int, ...],
    batch_sizes: list[int | Dim],
    window_sizes: list[int | Dim],
) -> tuple[int | Dim, ...]:
    """Return the windowed array's sizes: window sizes at `window_dims`, batch sizes between."""
    batch, window = iter(batch_sizes), iter(window_sizes)
    rank = len(batch_sizes) + len(window_sizes)
    return tuple(next(window) if dim in window_dims else next(batch) for dim in range(rank))


def _batch_sizes(numbers: IndexMap, indices: Shape) -> list[int | Dim]:
    return [indices.dims[dim] for dim in numbers.indices_batch_dims(indices.rank)]


def _infer_gather(view: OpView) -> Shape:
    operand, indices = view.operands
    given = view.as_(GatherAttributes)
    numbers = given.index_map
    require(indices.dtype.is_integer, "gather_i2", f"gather indices are integers, not {indices}")
    vectors = 1 if numbers.index_vector_dim < indices.rank else 0
    result_rank = indices.rank - vectors + len(given.offset_dims)
    _check_map(_GATHER, numbers, operand, indices, result_rank)
    sizes = given.slice_sizes
    require(len(sizes) == operand.rank, "gather_c20", f"slice sizes {sizes} do not fit {operand}")
    for dim, (size, whole) in enumerate(zip(sizes, operand.dims, strict=True)):
        if isinstance(size, int) and isinstance(whole, int) and not 0 <= size <= whole:
            require(False, "gather_c21", f"slice sizes {sizes} do not fit {operand}")
        for label, ones in (
            ("gather_c9", given.collapsed_slice_dims),
            ("gather_c12", given.operand_batching_dims),
        ):
            if dim in ones and not (isinstance(size, int) and size <= 1):
                require(False, label, f"dimension {dim} is left out, but its slice size is {size}")
    window = [sizes[dim] for dim in numbers.operand_window_dims(operand.rank)]
    dims = _combine(given.offset_dims, _batch_sizes(numbers, indices), window)
    return operand.with_dims(dims)


def _infer_scatter(view: OpView) -> Shape:
    count = len(view.operands) // 2
    require(
        len(view.operands) == 2 * count + 1,
        "scatter_c5",
        "scatter takes inputs, indices, and an update for each input",
    )
    inputs, indices = view.operands[:count], view.operands[count]
    updates = view.operands[count + 1 :]
    given = view.as_(ScatterAttributes)
    numbers = given.index_map
    first, update = inputs[0], updates[0]
    require(indices.dtype.is_integer, "scatter_i2", f"scatter indices are integers, not {indices}")
    for one, its_update in zip(inputs, updates, strict=True):
        if one.dims != first.dims:
            require(
                False, "scatter_c1", f"scatter takes inputs of one shape, got {first} and {one}"
            )
        if its_update.dims != update.dims:
            require(
                False,
                "scatter_c3",
                f"scatter takes updates of one shape, got {update} and {its_update}",
            )
        if its_update.dtype is not one.dtype:
            require(False, "scatter_c6", f"update {its_update} has another element type than {one}")
    _check_map(_SCATTER, numbers, first, indices, update.rank)
    batch = _batch_sizes(numbers, indices)
    window = [update.dims[dim] for dim in given.update_window_dims]
    fits = update.rank == len(batch) + len(window)
    fits = fits and _combine(given.update_window_dims, batch, window) == update.dims
    require(fits, "scatter_c4", f"updates {update} do not fit indices {indices}")
    for dim, size in zip(numbers.operand_window_dims(first.rank), window, strict=True):
        whole = first.dims[dim]
        if isinstance(size, int) and isinstance(whole, int):
            require(size <= whole, "scatter_c4", f"the window of update {update} exceeds {first}")
    elements = [one.dtype for one in inputs]
    require_region("scatter_c23", given.to_apply, elements * 2, elements)
    return inputs[0] if count == 1 else Shape.tuple(inputs)


def _infer_sort(view: OpView) -> Shape:
    first = view.operands[0]
    require(len(view.attributes.dimensions) == 1, "sort_c4", "sort takes one dimension number")
    require(
        _within(view.attributes.dimensions, first.rank),
        "sort_c4",
        f"{first} does not have the dimension that sort names",
    )
    for other in view.operands:
        require(
            other.dims == first.dims,
            "sort_c3",
            f"sort takes operands of one shape, got {first} and {other}",
        )
    pairs = [other.dtype for other in view.operands for _ in range(2)]
    require_region("sort_c5", view.attributes.to_apply, pairs, (PRED,))
    return first if len(view.operands) == 1 else Shape.tuple(view.operands)


def _infer_topk(view: OpView) -> Shape:
    (operand,) = view.operands
    require(operand.rank >= 1, "topk_c1", f"topk takes rows, not {operand}")
    require(
        not operand.dtype.is_complex, "topk_i1", f"topk takes elements with an order, not {operand}"
    )
    k, last = view.attributes.k, operand.dims[-1]
    require(
        k >= 0 and (isinstance(last, Dim) or k <= last),
        "topk_c2",
        f"topk cannot take {k} elements of each row of {operand}",
    )
    values = operand.with_dims((*operand.dims[:-1], k))
    return Shape.tuple((values, values.with_dtype(S32)))


def _scatter_flops(scatter: Instruction) -> int | Dim:
    return scatter.operands[-1].shape.size


def _sort_flops(sort: Instruction) -> int | Dim:
    """Return the comparisons of a merge sort; of rows of unknown length one for each element."""
    operand = sort.operands[0].shape
    length = operand.dims[sort.as_(SortAttributes).dimensions[0]]
    levels = (length - 1).bit_length() if isinstance(length, int) and length > 0 else 1
    return operand.size * levels


define("gather", family=FAMILY, arity=2, infer=_infer_gather, attributes=GatherAttributes,
       results=("c22", "c23"), traits={Trait.SUBSET_EXTRACTION}, fusion=FusionClass.INJECTIVE,
       doc="windows of the operand at computed indices, clamped inside")  # fmt: skip
define("scatter", family=FAMILY, arity=(3, None), infer=_infer_scatter,
       attributes=ScatterAttributes, results=("c24", "c25"), counts="c5",
       destinations=lambda count: count // 2, regions=RegionKind.ELEMENT, flops=_scatter_flops,
       doc="operand with updates combined in at computed indices, dropped outside")  # fmt: skip
define("sort", family=FAMILY, arity=(1, None), infer=_infer_sort, attributes=SortAttributes,
       results="c2", counts="c1", fusion=FusionClass.OPAQUE, regions=RegionKind.ELEMENT,
       flops=_sort_flops,
       doc="sorts along a dimension by a comparator, other operands along")  # fmt: skip
define("topk", family=FAMILY, arity=1, infer=_infer_topk, attributes=TopKAttributes,
       results="c3", fusion=FusionClass.OPAQUE,
       doc="k greatest (or least) elements of the last dimension, with their indices")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Shaping ops: they move elements and compute nothing.

Source: StableHLO specification (labels as there), XLA operation semantics for the text form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.interfaces import FusionClass, IndexingMap, ProjectedPermutation
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, label_prefix, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.instruction import Instruction

FAMILY = "shaping"
_S, _N = Trait.SHAPING, Trait.NEEDS_SHAPE
_VIEWS = {Trait.VIEW, Trait.RESHAPE_LIKE}
_INJECTIVE = FusionClass.INJECTIVE


@record
class DimensionsAttributes:
    """Attributes of `broadcast`, `transpose`, `reverse`, `concatenate`: dimension numbers."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)


@record
class SliceAttributes:
    """Attributes of `slice`: (start, limit, stride) per dimension; sizes may be symbolic."""

    slice: tuple[tuple[int | Dim, int | Dim, int], ...] = attribute(Codec.SLICE)


@record
class PadAttributes:
    """Attributes of `pad`: (low, high, interior) per dimension; low and high may be negative."""

    padding: tuple[tuple[int, int, int], ...] = attribute(Codec.PADDING)


@record
class IotaAttributes:
    """Attributes of `iota`."""

    iota_dimension: int = attribute(Codec.INT)


@record
class SizesAttributes:
    """Attributes of `dynamic-slice`."""

    dynamic_slice_sizes: tuple[int | Dim, ...] = attribute(Codec.INTS)


def _infer_broadcast(view: OpView) -> Shape:
    given = view.given()
    (operand,) = view.operands
    attributes = view.as_(DimensionsAttributes)
    dimensions = attributes.dimensions
    if operand.dtype is not given.dtype:
        require(False, "broadcast_in_dim_c1", f"broadcast of {operand} cannot give {given}")
    require(
        len(dimensions) == operand.rank,
        "broadcast_in_dim_c2",
        "one dimension number per operand dim",
    )
    require(
        len(set(dimensions)) == len(dimensions), "broadcast_in_dim_c4", "dimension numbers repeat"
    )
    for size, dimension in zip(operand.dims, dimensions, strict=True):
        if not 0 <= dimension < given.rank:
            require(False, "broadcast_in_dim_c3", f"{given} has no dimension {dimension}")
        if size != given.dims[dimension]:
            message = (
                f"broadcast of {operand} to {given}: size {size} is not {given.dims[dimension]}"
            )
            require(False, "broadcast_in_dim_c5", message)
    return given


def _infer_reshape(view: OpView) -> Shape:
    given = view.given()
    (operand,) = view.operands
    require(operand.dtype is given.dtype, "reshape_c1", f"reshape of {operand} cannot give {given}")
    require(
        operand.size == given.size,
        "reshape_c2",
        f"reshape of {operand} to {given} changes the number of elements",
    )
    return given


def _infer_bitcast(view: OpView) -> Shape:
    given = view.given()
    (operand,) = view.operands
    # Narrow integers are packed in XLA's memory and one byte each in Ingot's.
    same = operand.bytes == given.bytes or operand.packed_bits == given.packed_bits
    require(given.is_array and same, "bitcast_c1", f"bitcast of {operand} cannot give {given}")
    return given


def _infer_bitcast_convert(view: OpView) -> Shape:
    given = view.given()
    (operand,) = view.operands
    before, after = operand.dtype.bits, given.dtype.bits
    dims = given.dims
    require(
        given.is_array, "bitcast_convert_o1", f"bitcast-convert of {operand} cannot give {given}"
    )
    require(
        operand.dtype.is_complex == given.dtype.is_complex,
        "bitcast_convert_c2",
        f"bitcast-convert between real and complex numbers: {operand} to {given}",
    )
    if before > after:
        dims = (*operand.dims, before // after)
    elif before < after:
        require(
            bool(operand.dims) and operand.dims[-1] == after // before,
            "bitcast_convert_c1",
            f"bitcast-convert of {operand} cannot give {given}",
        )
        dims = operand.dims[:-1]
    else:
        dims = operand.dims
    require(
        dims == given.dims,
        "bitcast_convert_c1",
        f"bitcast-convert of {operand} cannot give {given}",
    )
    return given


def _infer_transpose(view: OpView) -> Shape:
    (operand,) = view.operands
    given = view.as_(DimensionsAttributes)
    order = given.dimensions
    require(
        sorted(order) == list(range(operand.rank)),
        "transpose_c2",
        f"{order} is not a permutation of the dimensions of {operand}",
    )
    return operand.with_dims(tuple(operand.dims[dimension] for dimension in order))


def _infer_reverse(view: OpView) -> Shape:
    (operand,) = view.operands
    dimensions = view.attributes.dimensions
    require(len(set(dimensions)) == len(dimensions), "reverse_c2", "dimension numbers repeat")
    require(
        all(0 <= p < operand.rank for p in dimensions),
        "reverse_c3",
        f"{operand} does not have all of the dimensions {dimensions}",
    )
    return operand


def _infer_slice(view: OpView) -> Shape:
    (operand,) = view.operands
    bounds = view.attributes.slice
    require(
        len(bounds) == operand.rank,
        "slice_c2",
        f"slice needs bounds for each dimension of {operand}, got {bounds}",
    )
    dims: list[int | Dim] = []
    for (start, limit, stride), size in zip(bounds, operand.dims, strict=True):
        if isinstance(start, int) and isinstance(limit, int):
            fits = 0 <= start <= limit and (isinstance(size, Dim) or limit <= size)
            require(
                fits, "slice_c3", f"slice [{start}:{limit}] exceeds the size {size} in {operand}"
            )
        require(stride > 0, "slice_c4", f"slice stride is {stride}, not 1 or more")
        dims.append(dim.ceil_div(limit - start, stride))
    return operand.with_dims(tuple(dims))


def _infer_pad(view: OpView) -> Shape:
    operand, value = view.operands
    padding = view.attributes.padding
    require(
        len(padding) == operand.rank,
        "pad_c2",
        f"pad needs padding for each dimension of {operand}, got {padding}",
    )
    message = f"the padding value is a scalar of the type of {operand}, not {value}"
    require(value.is_scalar, "pad_i2", message)
    require(value.dtype is operand.dtype, "pad_c1", message)
    dims: list[int | Dim] = []
    for (low, high, interior), size in zip(padding, operand.dims, strict=True):
        require(interior >= 0, "pad_c3", f"interior padding is {interior}, not 0 or more")
        spread = size + dim.maximum(size - 1, 0) * interior if interior else size
        total = spread + low + high
        require(
            not isinstance(total, int) or total >= 0,
            "pad_c4",
            f"padding {padding} of {operand} gives a negative size",
        )
        dims.append(total)
    return operand.with_dims(tuple(dims))


def _infer_concatenate(view: OpView) -> Shape:
    first = view.operands[0]
    given = view.as_(DimensionsAttributes)
    require(len(given.dimensions) == 1, "concatenate_c4", "concatenate takes one dimension")
    (dimension,) = given.dimensions
    require(0 <= dimension < first.rank, "concatenate_c4", f"{first} has no dimension {dimension}")
    total: int | Dim = 0
    for other in view.operands:
        same = other.rank == first.rank and all(
            a == b
            for i, (a, b) in enumerate(zip(other.dims, first.dims, strict=True))
            if i != dimension
        )
        if not same or other.dtype is not first.dtype:
            label = "concatenate_c1" if same else "concatenate_c2"
            require(
                False,
                label,
                f"{first} and {other} cannot be concatenated along dimension {dimension}",
            )
        total = total + other.dims[dimension]
    return first.with_dim(dimension, total)


def _infer_iota(view: OpView) -> Shape:
    given = view.given()
    dimension = view.attributes.iota_dimension
    numeric = given.is_array and given.dtype is not PRED
    require(numeric, "iota_o1", f"iota gives numbers, not {given}")
    require(
        0 <= dimension < given.rank, "iota_c1", f"{given} has no dimension {dimension} for iota"
    )
    return given


def _infer_dimension_size(view: OpView) -> Shape:
    (operand,) = view.operands
    dimensions = view.attributes.dimensions
    fits = len(dimensions) == 1 and 0 <= dimensions[0] < operand.rank
    require(
        fits,
        "get_dimension_size_c1",
        f"get-dimension-size takes one dimension of {operand}, not {dimensions}",
    )
    return Shape.array("s32", ())


def _require_indices(view: OpView, indices: tuple[Shape, ...], rank: int) -> None:
    name, updates = label_prefix(view.opcode), len(view.operands) - len(indices) - 1
    count, same = ("c4", "c5") if updates else ("c2", "c3")
    if len(indices) != rank:
        message = f"{view.opcode} takes {rank} indices, got {len(indices)}"
        require(False, f"{name}_{count}", message)
    for index in indices:
        if not index.is_scalar or not index.dtype.is_integer:
            message = f"an index of {view.opcode} is an integer scalar, not {index}"
            require(False, f"{name}_{'i3' if updates else 'i2'}", message)
        if index.dtype is not indices[0].dtype:
            message = f"indices of {view.opcode} are of one type, not {indices[0]} and {index}"
            require(False, f"{name}_{same}", message)


def _infer_dynamic_slice(view: OpView) -> Shape:
    operand, *indices = view.operands
    _require_indices(view, tuple(indices), operand.rank)
    sizes = view.attributes.dynamic_slice_sizes
    require(
        len(sizes) == operand.rank, "dynamic_slice_c2", f"slice sizes {sizes} do not fit {operand}"
    )
    for size, whole in zip(sizes, operand.dims, strict=True):
        if isinstance(size, int) and isinstance(whole, int):
            require(
                0 <= size <= whole,
                "dynamic_slice_c4",
                f"slice size {size} exceeds dimension size {whole}",
            )
    return operand.with_dims(tuple(sizes))


def _infer_dynamic_update_slice(view: OpView) -> Shape:
    operand, update, *indices = view.operands
    _require_indices(view, tuple(indices), operand.rank)
    message = f"update {update} of {operand}"
    require(update.dtype is operand.dtype, "dynamic_update_slice_c2", message)
    require(update.rank == operand.rank, "dynamic_update_slice_c3", message)
    for size, whole in zip(update.dims, operand.dims, strict=True):
        if isinstance(size, int) and isinstance(whole, int):
            require(size <= whole, "dynamic_update_slice_c6", f"update {update} of {operand}")
    return operand


def _broadcast_dims(op: Instruction) -> tuple[int, ...]:
    return op.as_(DimensionsAttributes).dimensions


def _transpose_dims(op: Instruction) -> tuple[int, ...]:
    order = op.as_(DimensionsAttributes).dimensions
    dims = [0] * len(order)
    for result, operand in enumerate(order):
        dims[operand] = result
    return tuple(dims)


def _reverse_index(op: Instruction, index: tuple[int | Dim, ...]) -> tuple[int | Dim, ...]:
    reversed_dims = op.as_(DimensionsAttributes).dimensions
    return tuple(
        [
            size - 1 - position if number in reversed_dims else position
            for number, (position, size) in enumerate(zip(index, op.shape.dims, strict=True))
        ]
    )


def _slice_index(op: Instruction, index: tuple[int | Dim, ...]) -> tuple[int | Dim, ...]:
    bounds = op.as_(SliceAttributes).slice
    return tuple(
        [
            start + position * stride
            for position, (start, _, stride) in zip(index, bounds, strict=True)
        ]
    )


_DIMS = DimensionsAttributes
define("broadcast", family=FAMILY, arity=1, infer=_infer_broadcast, attributes=_DIMS,
       results="c2", traits={_S, _N}, spec="broadcast_in_dim",
       indexing=ProjectedPermutation(_broadcast_dims),
       doc="repeats along new dimensions")  # fmt: skip
define("reshape", family=FAMILY, arity=1, infer=_infer_reshape, traits={_S, _N} | _VIEWS,
       fusion=_INJECTIVE,
       doc="other dimensions, same row-major elements")  # fmt: skip
define("bitcast", family=FAMILY, arity=1, infer=_infer_bitcast, traits={_S, _N} | _VIEWS,
       fusion=_INJECTIVE, results="c1",
       doc="same buffer seen as another shape")  # fmt: skip
define("bitcast-convert", family=FAMILY, arity=1, infer=_infer_bitcast_convert,
       traits={_N, Trait.EXACT, Trait.NO_ARITHMETIC}, fusion=_INJECTIVE,
       doc="same bits as another element type")  # fmt: skip
define("transpose", family=FAMILY, arity=1, infer=_infer_transpose, attributes=_DIMS,
       results=("c3", "c1"), traits={_S}, indexing=ProjectedPermutation(_transpose_dims),
       doc="result dimension i is operand dimension dimensions[i]")  # fmt: skip
define("reverse", family=FAMILY, arity=1, infer=_infer_reverse, attributes=_DIMS,
       traits={_S}, indexing=IndexingMap(_reverse_index), doc="reverses dimensions")  # fmt: skip
define("slice", family=FAMILY, arity=1, infer=_infer_slice, attributes=SliceAttributes,
       results=("c5", "c1"), traits={_S, Trait.SUBSET_EXTRACTION},
       indexing=IndexingMap(_slice_index), doc="a strided box")  # fmt: skip
define("pad", family=FAMILY, arity=2, infer=_infer_pad, attributes=PadAttributes,
       results=("c4", "c1"), traits={_S}, fusion=_INJECTIVE,
       doc="borders and gaps filled with a value")  # fmt: skip
define("concatenate", family=FAMILY, arity=(1, None), infer=_infer_concatenate, attributes=_DIMS,
       results=("c6", "c5"), counts="c3", traits={_S}, fusion=_INJECTIVE,
       doc="operands one after the other along a dimension")  # fmt: skip
define("iota", family=FAMILY, arity=0, infer=_infer_iota, attributes=IotaAttributes,
       traits={_N, Trait.CONSTANT_LIKE}, fusion=_INJECTIVE,
       doc="0, 1, 2 … along a dimension")  # fmt: skip
define("get-dimension-size", family=FAMILY, arity=1, infer=_infer_dimension_size, attributes=_DIMS,
       results="o1", fusion=_INJECTIVE,
       doc="the size of one dimension, at run time")  # fmt: skip
define("dynamic-slice", family=FAMILY, arity=(1, None), infer=_infer_dynamic_slice,
       attributes=SizesAttributes, traits={_S, Trait.SUBSET_EXTRACTION}, fusion=_INJECTIVE,
       results=("c5", "c1"),
       doc="a box at computed indices, clamped inside")  # fmt: skip
define("dynamic-update-slice", family=FAMILY, arity=(2, None), infer=_infer_dynamic_update_slice,
       destinations=lambda count: 1,
       doc="operand with a box replaced at computed indices, clamped inside")  # fmt: skip

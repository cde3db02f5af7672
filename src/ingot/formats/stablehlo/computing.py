# SPDX-License-Identifier: Apache-2.0
"""Converters of contractions, windowed reductions, indexing, sorting and random ops.

Their attributes are structures in MLIR (dimension numbers, windows) and flat in HLO.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.attributes import flags, integers, name, names, pairs, structure
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.formats.stablehlo.sizes import Sizes
from ingot.hlo.opdef import find
from ingot.hlo.opset.contraction import (
    ConvolutionAttributes,
    ConvolutionLabels,
    DotAttributes,
)
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.hlo.opset.indexing import GatherAttributes, ScatterAttributes, SortAttributes
from ingot.hlo.opset.random import AlgorithmAttributes, DistributionAttributes
from ingot.hlo.opset.reduction import ReduceWindowAttributes, SelectAndScatterAttributes
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension


def _compare(site: Site) -> Results:
    direction = name(site.attributes["comparison_direction"])
    # HLO says the type of comparison only where it is not the element type's own.
    given = name(site.attributes["compare_type"]) if "compare_type" in site.attributes else ""
    kind = given if given == "TOTALORDER" else ""
    return site.add(find("compare"), CompareAttributes(direction, kind))


# ---- contractions


def _precision(site: Site) -> tuple[str, ...]:
    """Return the operands' precisions, nothing when all are the default, as XLA prints them."""
    if "precision_config" not in site.attributes:
        return ()
    found = names(site.attributes["precision_config"])
    return () if all(one == "default" for one in found) else found


_Dims = tuple[int, ...]


def dot_dimensions(numbers: Any) -> tuple[_Dims, _Dims, _Dims, _Dims]:
    """Return lhs batch, lhs contracting, rhs batch, rhs contracting dimensions of MLIR's numbers.

    That is the order of the fields of `DotAttributes`.
    """
    return (
        tuple(numbers.lhs_batching_dimensions),
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_batching_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )


def _dot_general(site: Site) -> Results:
    numbers = structure(site.attributes["dot_dimension_numbers"], "DotDimensionNumbers")
    attributes = DotAttributes(
        *dot_dimensions(numbers),
        _precision(site),
        _algorithm(site) if "algorithm" in site.attributes else "",
    )
    return site.add(find("dot"), attributes)


# (element type of lhs, rhs and accumulation; components, operations) -> XLA's name; both operands
# have the same type and number of components.
_ALGORITHMS = {
    ("f16", "f16", 1, 1): "dot_f16_f16_f16",
    ("f16", "f32", 1, 1): "dot_f16_f16_f32",
    ("bf16", "bf16", 1, 1): "dot_bf16_bf16_bf16",
    ("bf16", "f32", 1, 1): "dot_bf16_bf16_f32",
    ("bf16", "f32", 1, 3): "dot_bf16_bf16_f32_x3",
    ("bf16", "f32", 1, 6): "dot_bf16_bf16_f32_x6",
    ("bf16", "f32", 1, 9): "dot_bf16_bf16_f32_x9",
    ("bf16", "f32", 3, 6): "dot_bf16_bf16_f32_x6",
    ("bf16", "f32", 3, 9): "dot_bf16_bf16_f32_x9",
    ("bf16", "f32", 2, 3): "dot_bf16_bf16_f32_x3",
    ("tf32", "f32", 1, 1): "dot_tf32_tf32_f32",
    ("tf32", "f32", 1, 3): "dot_tf32_tf32_f32_x3",
    ("tf32", "f32", 2, 3): "dot_tf32_tf32_f32_x3",
    ("f32", "f32", 1, 1): "dot_f32_f32_f32",
    ("f64", "f64", 1, 1): "dot_f64_f64_f64",
}


def _algorithm(site: Site) -> str:
    """Return XLA's name of the dot algorithm that a site asks for."""
    attribute = structure(site.attributes["algorithm"], "DotAlgorithm")
    left, accumulation = str(attribute.lhs_precision_type), str(attribute.accumulation_type)
    if left.startswith("f8") and accumulation == "f32":
        fast = "_fast_accum" if attribute.allow_imprecise_accumulation else ""
        return f"dot_any_f8_any_f8_f32{fast}"
    key = (
        left,
        accumulation,
        attribute.lhs_component_count,
        attribute.num_primitive_operations,
    )
    if key not in _ALGORITHMS:
        raise site.unsupported(
            f"there is no dot algorithm {site.attributes['algorithm']}",
            "use one of XLA's (PrecisionConfig.Algorithm), or leave the algorithm out",
        )
    return _ALGORITHMS[key]


def _dot(site: Site) -> Results:
    left = site.operands[0].shape
    attributes = DotAttributes((), (left.rank - 1,), (), (0,), _precision(site))
    return site.add(find("dot"), attributes)


def _dimension_numbers(site: Site, key: str, count: int) -> tuple[int, ...]:
    """Return an optional list of `count` integers; ones if it is missing or empty."""
    given = integers(site.attributes[key]) if key in site.attributes else ()
    return given or (1,) * count


def window(
    site: Site,
    sizes: tuple[int, ...],
    names_of: dict[str, str],
    reversal: tuple[bool, ...] = (),
    padding: tuple[tuple[int, int], ...] | None = None,
) -> Window:
    """Return a window of `sizes`; `names_of` says the attributes of its other fields."""
    count = len(sizes)
    strides = _dimension_numbers(site, names_of["stride"], count)
    base = _dimension_numbers(site, names_of.get("base", ""), count)
    dilation = _dimension_numbers(site, names_of.get("window", ""), count)
    if padding is None:
        padding = pairs(site.attributes.get("padding"), count)
    return tuple(
        WindowDimension(size, stride, low, high, spread, gap, backwards)
        for size, stride, (low, high), spread, gap, backwards in zip(
            sizes, strides, padding, base, dilation, reversal or (False,) * count, strict=True
        )
    )


def _labels(first: tuple[int, int], letters: str, spatial: list[int]) -> str:
    """Return XLA's letters of dimensions: two special ones, the spatial ones numbered."""
    text = [""] * (2 + len(spatial))
    for dim, letter in zip(first, letters, strict=True):
        text[dim] = letter
    for number, dim in enumerate(spatial):
        text[dim] = str(number)
    return "".join(text)


def convolution(site: Site, padding: tuple[tuple[int, int], ...] | None = None) -> Results:
    """Add a convolution; `padding` stands for the attribute where it is an operand."""
    attributes = convolution_attributes(site, padding)
    return site.emit(find("convolution"), site.operands[:2], attributes, site.declared[0])


def convolution_attributes(
    site: Site, padding: tuple[tuple[int, int], ...] | None = None
) -> ConvolutionAttributes:
    """Return the attributes of a convolution, padded by the attribute or by `padding`."""
    numbers = structure(site.attributes["dimension_numbers"], "ConvDimensionNumbers")
    labels = ConvolutionLabels(
        _labels(
            (numbers.input_batch_dimension, numbers.input_feature_dimension),
            "bf",
            list(numbers.input_spatial_dimensions),
        ),
        _labels(
            (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension),
            "io",
            list(numbers.kernel_spatial_dimensions),
        ),
        _labels(
            (numbers.output_batch_dimension, numbers.output_feature_dimension),
            "bf",
            list(numbers.output_spatial_dimensions),
        ),
    )
    kernel = site.operands[1].shape.static_dims
    spatial: list[int] = list(numbers.kernel_spatial_dimensions)
    sizes = tuple(kernel[dim] for dim in spatial)
    given = site.attributes
    reversal = flags(given["window_reversal"]) if "window_reversal" in given else ()
    renames = {"stride": "window_strides", "base": "lhs_dilation", "window": "rhs_dilation"}
    return ConvolutionAttributes(
        window=window(site, sizes, renames, reversal, padding),
        dim_labels=str(labels),
        feature_group_count=given["feature_group_count"].value,
        batch_group_count=given["batch_group_count"].value,
        operand_precision=_precision(site),
    )


# ---- windowed reductions


def _reduce_window(site: Site) -> Results:
    sizes = integers(site.attributes["window_dimensions"])
    renames = {"stride": "window_strides", "base": "base_dilations", "window": "window_dilations"}
    reducer = site.conversion.reducer(site, site.op.regions[0])
    attributes = ReduceWindowAttributes(window(site, sizes, renames), reducer)
    shape = site.result_shape()
    return site.elements(site.emit(find("reduce-window"), site.operands, attributes, shape))


def _select_and_scatter(site: Site) -> Results:
    rank = site.operands[0].shape.rank
    sizes = _dimension_numbers(site, "window_dimensions", rank)
    select, scatter = (site.conversion.reducer(site, region) for region in site.op.regions)
    attributes = SelectAndScatterAttributes(
        window(site, sizes, {"stride": "window_strides"}), select, scatter
    )
    return site.add(find("select-and-scatter"), attributes)


# ---- indexing


def gather_attributes(site: Site, slice_sizes: Sizes) -> GatherAttributes:
    """Return the attributes of a gather of windows of `slice_sizes`."""
    numbers = structure(site.attributes["dimension_numbers"], "GatherDimensionNumbers")
    return GatherAttributes(
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        start_index_map=tuple(numbers.start_index_map),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        slice_sizes=slice_sizes,
        indices_are_sorted=_flag(site, "indices_are_sorted"),
    )


def _flag(site: Site, name: str) -> bool:
    return name in site.attributes and bool(site.attributes[name].value)


def _gather(site: Site) -> Results:
    sizes = integers(site.attributes["slice_sizes"])
    return site.add(find("gather"), gather_attributes(site, sizes))


def _scatter(site: Site) -> Results:
    numbers = structure(site.attributes["scatter_dimension_numbers"], "ScatterDimensionNumbers")
    attributes = ScatterAttributes(
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=tuple(numbers.scattered_dims_to_operand_dims),
        input_batching_dims=tuple(numbers.input_batching_dims),
        scatter_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        index_vector_dim=numbers.index_vector_dim,
        indices_are_sorted=_flag(site, "indices_are_sorted"),
        unique_indices=_flag(site, "unique_indices"),
        to_apply=site.conversion.reducer(site, site.op.regions[0]),
    )
    made = site.emit(find("scatter"), site.operands, attributes, site.result_shape())
    return site.elements(made)


def _sort(site: Site) -> Results:
    """The last dimension unless it says which; negative ones count from behind."""
    given = site.attributes
    dim = int(given["dimension"].value) if "dimension" in given else -1
    if dim < 0:
        dim += site.operands[0].shape.rank
    called = site.conversion.reducer(site, site.op.regions[0])
    attributes = SortAttributes(
        dimensions=(dim,), is_stable=_flag(site, "is_stable"), to_apply=called
    )
    return site.elements(site.emit(find("sort"), site.operands, attributes, site.result_shape()))


# ---- random


def _rng_bit_generator(site: Site) -> Results:
    algorithm = f"rng_{name(site.attributes['rng_algorithm']).lower()}"
    made = site.emit(
        find("rng-bit-generator"),
        site.operands,
        AlgorithmAttributes(algorithm),
        site.result_shape(),
    )
    return site.elements(made)


def _rng(site: Site) -> Results:
    distribution = f"rng_{name(site.attributes['rng_distribution']).lower()}"
    attributes = DistributionAttributes(distribution)
    # The third operand is the shape, which the result's type says too.
    shape = site.declared[0]
    if shape is None:
        element = site.conversion.types.element(site.op.result.type)
        sizes = site.conversion.sizes_of(site.operands[2])
        shape = Shape.array(element, sizes) if sizes is not None else None
    return site.emit(find("rng"), site.operands[:2], attributes, site.known(shape))


CONVERTERS: dict[str, Converter] = {
    "stablehlo.compare": _compare,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.convolution": convolution,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
    "stablehlo.sort": _sort,
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.rng": _rng,
}

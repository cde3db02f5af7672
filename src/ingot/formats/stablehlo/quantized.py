# SPDX-License-Identifier: Apache-2.0
"""Quantized tensors (`tensor<4x!quant.uniform<i8:f32, 0.1:-3>>`): integers that stand for numbers.

A value of a quantized type is an array of its storage type. An op that moves elements moves those;
any other op computes on the numbers that they represent, and its result is rounded to the integers
of the result's type (dequantize_op_quantize in the specification). The HLO has no quantization
left.

Source: the StableHLO specification, "Quantization computations".
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.quantization import Quantization
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32, DType
from ingot.hlo.instruction import Instruction

# Elements are unchanged, or a region of the op computes them.
_ON_STORAGE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather", "all_reduce", "all_to_all", "bitcast_convert", "broadcast",
        "broadcast_in_dim", "case", "collective_broadcast", "collective_permute", "composite",
        "concatenate", "constant", "custom_call", "dynamic_broadcast_in_dim", "dynamic_gather",
        "dynamic_pad", "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather",
        "get_dimension_size", "get_tuple_element", "if", "map", "optimization_barrier", "pad",
        "real_dynamic_slice", "recv", "reduce", "reduce_scatter", "reduce_window", "reshape",
        "reverse", "scatter", "select_and_scatter", "send", "set_dimension_size", "slice", "sort",
        "torch_index_select", "transpose", "tuple", "while",
    )
) | {"func.call", "func.return", "stablehlo.return"}  # fmt: skip


def converted(site: Site, converter: Converter) -> Results:
    """Return the results of an op that may have quantized operands or results."""
    types = site.conversion.types
    after = [types.quantization(result.type) for result in site.op.results]
    if not types.met_quantized:
        return converter(site)
    before = [types.quantization(operand.type) for operand in site.op.operands]
    # Ops of CHLO become ops of StableHLO, which come here again.
    moves = site.name in _ON_STORAGE or site.name.startswith("chlo.")
    if moves or not any((*before, *after)):
        return converter(site)
    build = site.builder
    site.operands = [
        operand if given is None else dequantized(build, operand, given)
        for operand, given in zip(site.operands, before, strict=True)
    ]
    site.declare(
        tuple(
            shape if given is None or shape is None else shape.with_dtype(given.expressed)
            for shape, given in zip(site.declared, after, strict=True)
        )
    )
    results = converter(site)
    single = isinstance(results, Instruction)
    made = [
        result if given is None else quantized(build, result, given)
        for result, given in zip([results] if single else results, after, strict=True)
    ]
    return made[0] if single else made


def dequantized(build: Builder, value: Instruction, given: Quantization) -> Instruction:
    """Return the numbers that the integers of `value` represent."""
    wide = build.convert_to(value, S32) if given.storage.bits < S32.bits else value
    if any(given.zero_points):
        wide = build.subtract(wide, _along(build, wide, given.zero_points, wide.shape.dtype, given))
    numbers = build.convert_to(wide, given.expressed)
    return build.multiply(numbers, _along(build, numbers, given.scales, given.expressed, given))


def quantized(build: Builder, numbers: Instruction, given: Quantization) -> Instruction:
    """Return the integers that represent `numbers`, rounded and clamped to the range."""
    scaled = build.divide(numbers, _along(build, numbers, given.scales, given.expressed, given))
    if any(given.zero_points):
        zero_points = _along(build, numbers, given.zero_points, given.expressed, given)
        scaled = build.add(scaled, zero_points)
    least, most = (build.constant(limit, given.expressed) for limit in (given.least, given.most))
    inside = build.clamp(least, scaled, most)
    return build.convert_to(build.round_nearest_even(inside), given.storage)


def _along(
    build: Builder, like: Instruction, values: tuple[Any, ...], element: DType, given: Quantization
) -> Instruction:
    """Return the one value, or the values along the axis, in the shape of `like`."""
    if given.axis is None:
        return build.full(values[0], like.shape.with_dtype(element))
    return build.broadcast_to(build.constant(list(values), element), like.shape.dims, (given.axis,))


def _same_numbers(site: Site) -> Results:
    """The numbers stay the same: only their representation changes."""
    return site.operands[0]


CONVERTERS: dict[str, Converter] = {
    "stablehlo.uniform_dequantize": _same_numbers,
    "stablehlo.uniform_quantize": _same_numbers,
}

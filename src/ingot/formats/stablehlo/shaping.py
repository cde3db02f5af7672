# SPDX-License-Identifier: Apache-2.0
"""Converters of shaping ops with other attributes in HLO, and of constants.

`broadcast_in_dim` may widen sizes of 1, which HLO's `broadcast` may not: they are reshaped away
first.
"""

from __future__ import annotations

from ingot.formats.stablehlo.attributes import integers
from ingot.formats.stablehlo.constants import literal, splat
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import NO_ATTRIBUTES, find
from ingot.hlo.opset.shaping import DimensionsAttributes, PadAttributes, SliceAttributes
from ingot.hlo.opset.structural import ConstantAttributes
from ingot.hlo.shape import Shape


def _constant(site: Site) -> Results:
    shape, constant = site.shape, find("constant")
    repeated = splat(site.op, shape)
    if repeated is None:
        return site.add(constant, ConstantAttributes(literal(site.op, shape)))
    scalar = site.emit(constant, (), ConstantAttributes(repeated), repeated.shape)
    return site.emit(find("broadcast"), (scalar,), DimensionsAttributes(()), shape)


def broadcast(
    site: Site, operand: Instruction, dimensions: tuple[int, ...], shape: Shape
) -> Instruction:
    """Broadcast `operand` to `shape`: dimension i becomes `dimensions[i]`, sizes of 1 widen."""
    widened = [
        size == 1 and shape.dims[dim] != 1
        for size, dim in zip(operand.shape.dims, dimensions, strict=True)
    ]
    if any(widened):
        kept = [n for n, wide in enumerate(widened) if not wide]
        dims = tuple(operand.shape.dims[n] for n in kept)
        operand = site.builder.reshape_to(operand, dims)
        dimensions = tuple(dimensions[n] for n in kept)
    if operand.shape.dims == shape.dims and dimensions == tuple(range(shape.rank)):
        return operand
    return site.emit(find("broadcast"), (operand,), DimensionsAttributes(dimensions), shape)


def _broadcast_in_dim(site: Site) -> Results:
    dimensions = integers(site.attributes["broadcast_dimensions"])
    return broadcast(site, site.operands[0], dimensions, site.shape)


def _broadcast(site: Site) -> Results:
    operand = site.operands[0]
    new = site.shape.rank - operand.shape.rank
    return broadcast(site, operand, tuple(range(new, site.shape.rank)), site.shape)


def _slice(site: Site) -> Results:
    starts, limits, strides = (
        integers(site.attributes[name]) for name in ("start_indices", "limit_indices", "strides")
    )
    bounds = tuple(zip(starts, limits, strides, strict=True))
    return site.add(find("slice"), SliceAttributes(bounds))


def _pad(site: Site) -> Results:
    low, high, interior = (
        integers(site.attributes[name])
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return site.add(find("pad"), PadAttributes(tuple(zip(low, high, interior, strict=True))))


def _bitcast_convert(site: Site) -> Results:
    """A dimension of the parts of an element comes or goes; the others are the operand's."""
    shape, operand = site.declared[0], site.operands[0].shape
    if shape is None:
        element = site.conversion.types.element(site.op.result.type)
        before, after = operand.dtype.bits, element.bits
        dims = operand.dims
        if before > after:
            dims = (*dims, before // after)
        elif before < after:
            dims = dims[:-1]
        shape = Shape.array(element, dims)
    return site.emit(find("bitcast-convert"), site.operands, NO_ATTRIBUTES, shape)


CONVERTERS: dict[str, Converter] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "sdy.constant": _constant,
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
}

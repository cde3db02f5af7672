# SPDX-License-Identifier: Apache-2.0
"""Converters of ops whose sizes are operands, and of what JAX exports with symbolic sizes.

Each becomes the static op, with sizes (symbolic ones too) that `sizes` finds out. Sizes that are
computed from data are sizes of results whose types have bounds (`computed_sizes`); a type without
any is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.formats.stablehlo.attributes import integers
from ingot.formats.stablehlo.computed_sizes import at_bounds, padded, scalars, sliced, with_sizes
from ingot.formats.stablehlo.computing import (
    convolution,
    convolution_attributes,
    gather_attributes,
)
from ingot.formats.stablehlo.equal_sizes import Size, equate
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.formats.stablehlo.shaping import broadcast
from ingot.formats.stablehlo.sizes import Sizes
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import NO_ATTRIBUTES, find
from ingot.hlo.opset.shaping import (
    IotaAttributes,
    PadAttributes,
    SizesAttributes,
    SliceAttributes,
)
from ingot.hlo.shape import Shape


def _sizes(site: Site, operand: Instruction, what: str) -> Sizes:
    found = site.conversion.sizes_of(operand)
    if found is None:
        raise site.unsupported(
            f"{what} are computed from data",
            "say how large they can be in the type: tensor<?xf32, #stablehlo.bounds<8>>",
        )
    return found


def _result(site: Site, sizes_operand: Instruction) -> Shape:
    """Return the result shape: MLIR's type when it is static, else of the computed sizes."""
    (declared,) = site.declared
    if declared is not None:
        return declared
    element = site.conversion.types.element(site.op.result.type)
    return Shape.array(element, _sizes(site, sizes_operand, "the sizes of its result"))


def _is_bounded(site: Site) -> bool:
    declared = site.declared[0]
    return declared is not None and any(declared.bounded)


def _broadcast_in_dim(site: Site) -> Results:
    operand, sizes = site.operands
    shape = _result(site, sizes)
    dimensions = integers(site.attributes["broadcast_dimensions"])
    if _is_bounded(site):
        flags = dict(zip(dimensions, operand.shape.bounded, strict=False))
        whole = replace(shape, bounded=tuple(flags.get(n, False) for n in range(shape.rank)))
        value = broadcast(
            site, operand, dimensions, whole if any(whole.bounded) else at_bounds(shape)
        )
        return with_sizes(site.builder, value, shape, scalars(site.builder, sizes))
    for size, dim in zip(operand.shape.dims, dimensions, strict=True):
        if size != 1:
            equate(size, shape.dims[dim])
    return broadcast(site, operand, dimensions, shape)


def _reshape(site: Site) -> Results:
    operand, sizes = site.operands
    shape = _result(site, sizes)
    if _is_bounded(site):
        return site.builder.dynamic_reshape(operand, *scalars(site.builder, sizes), shape=shape)
    return site.emit(find("reshape"), (operand,), NO_ATTRIBUTES, shape)


def _iota(site: Site) -> Results:
    (dim,) = integers(site.attributes["iota_dimension"])
    shape = _result(site, site.operands[0])
    if _is_bounded(site):
        build = site.builder
        value = build.iota(shape=at_bounds(shape), iota_dimension=dim)
        return with_sizes(build, value, shape, scalars(build, site.operands[0]))
    return site.emit(find("iota"), (), IotaAttributes(dim), shape)


def _numbers(site: Site, operands: Sequence[Instruction]) -> list[tuple[int, ...]] | None:
    """Return the values of integer operands; None when one of them is not known."""
    found: list[tuple[int, ...]] = []
    for operand in operands:
        sizes = site.conversion.sizes_of(operand)
        numbers = tuple(size for size in sizes or () if isinstance(size, int))
        if sizes is None or len(numbers) != len(sizes):
            return None
        found.append(numbers)
    return found


def _bound(site: Site, what: str) -> Shape:
    """Return the result's shape, or its bounds, for an op whose `what` are computed."""
    declared = site.declared[0]
    if declared is None or not declared.is_static:
        raise site.unsupported(
            f"{what} are computed from data, and so are the sizes of its result",
            "say how large they can be in the type: tensor<?xf32, #stablehlo.bounds<8>>",
        )
    return declared


def _pad(site: Site) -> Results:
    operand, value, low, high, interior = site.operands
    known = _numbers(site, (low, high, interior))
    if known is None or _is_bounded(site):
        shape = _bound(site, "its paddings")
        return padded(site.builder, operand, value, (low, high, interior), shape)
    attributes = PadAttributes(tuple(zip(*known, strict=True)))
    return site.emit(find("pad"), (operand, value), attributes, site.declared[0])


def _gather(site: Site) -> Results:
    operand, indices, sizes = site.operands
    found = site.conversion.sizes_of(sizes)
    if found is None:
        found = _windows_of(site, operand, _bound(site, "its slice sizes"))
    attributes = gather_attributes(site, found)
    return site.emit(find("gather"), (operand, indices), attributes, site.declared[0])


def _windows_of(site: Site, operand: Instruction, result: Shape) -> tuple[int, ...]:
    """Return the slice sizes that a gather's result has: those of its offset dimensions."""
    given = gather_attributes(site, ())
    left_out = {*given.collapsed_slice_dims, *given.operand_batching_dims}
    sizes = iter(result.static_dims[dim] for dim in given.offset_dims)
    return tuple(1 if n in left_out else next(sizes) for n in range(operand.shape.rank))


def _real_dynamic_slice(site: Site) -> Results:
    operand, *bounds = site.operands
    starts, limits, strides = (site.conversion.sizes_of(bound) for bound in bounds)
    if _is_bounded(site) or (strides is None and _bound(site, "its strides")):
        return sliced(site.builder, operand, (bounds[0], bounds[1], bounds[2]), site.shape)
    if starts is None or limits is None or strides is None:
        return _slice_at(site, operand, bounds, strides)
    rows: list[tuple[Size, Size, int]] = []
    for start, limit, stride in zip(starts, limits, strides, strict=True):
        if not isinstance(stride, int):
            raise site.unsupported("its strides are symbolic sizes")
        rows.append((start, limit, stride))
    return site.emit(find("slice"), (operand,), SliceAttributes(tuple(rows)), site.declared[0])


def _slice_at(
    site: Site, operand: Instruction, bounds: Sequence[Instruction], strides: Sizes | None
) -> Results:
    """Slice at indices computed from data: the sizes of the result must be known."""
    starts, limits, steps = bounds
    in_steps = strides is None or any(stride != 1 for stride in strides)
    sizes = None if in_steps else _distance(site, starts, limits)
    shape = operand.shape.with_dims(sizes) if sizes is not None else _bound(site, "its bounds")
    if in_steps:
        return sliced(site.builder, operand, (starts, limits, steps), shape)
    attributes = SizesAttributes(shape.dims)
    indices = scalars(site.builder, starts)
    return site.emit(find("dynamic-slice"), (operand, *indices), attributes, shape)


def _distance(site: Site, starts: Instruction, limits: Instruction) -> Sizes | None:
    """Return the sizes of a slice that ends known sizes behind its start, as JAX writes one."""
    if limits.opcode != "add" or starts not in limits.operands:
        return None
    left, right = limits.operands
    return site.conversion.sizes_of(right if left is starts else left)


def _convolution(site: Site) -> Results:
    operand, kernel, padding = site.operands
    known = _numbers(site, (padding,))
    if known is not None:
        (flat,) = known
        return convolution(site, tuple(zip(flat[::2], flat[1::2], strict=True)))
    given = convolution_attributes(site, ((0, 0),) * (operand.shape.rank - 2))
    labels, result = given.labels, _bound(site, "its paddings")
    # A computed padding is done first: as many elements as the windows of the result reach.
    build, dims = site.builder, list(operand.shape.static_dims)
    zero = build.constant(0, S32)
    low, interior = [zero] * len(dims), [zero] * len(dims)
    lows = scalars(build, build.reshape_to(padding, (2 * len(given.window),)))[::2]
    for number, one in enumerate(given.window):
        dim = labels.lhs.index(str(number))
        count = result.static_dims[labels.output.index(str(number))]
        dims[dim] = one.reach(max(count, 1))
        low[dim] = lows[number]
        interior[dim] = build.constant(one.base_dilation - 1, S32)
    whole = padded(
        build,
        operand,
        build.constant(0, operand.shape.dtype),
        (_vector(build, low), _vector(build, [zero] * len(dims)), _vector(build, interior)),
        operand.shape.with_dims(tuple(dims)),
    )
    dense = tuple(replace(one, base_dilation=1) for one in given.window)
    attributes = replace(given, window=dense)
    return site.emit(find("convolution"), (whole, kernel), attributes, result)


def _vector(build: Builder, numbers: Sequence[Instruction]) -> Instruction:
    return build.concatenate(*(build.reshape_to(n, (1,)) for n in numbers), dimensions=(0,))


CONVERTERS: dict[str, Converter] = {
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_conv": _convolution,
}

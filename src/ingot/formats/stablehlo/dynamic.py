"""Converters of ops whose sizes are operands, and of what JAX exports with symbolic sizes.

Each becomes the static op, with sizes (symbolic ones too) that `sizes` finds out. What is computed
from data cannot be a size of a shape here and is refused by name.
"""

from __future__ import annotations

from ingot.formats.stablehlo.attributes import integers
from ingot.formats.stablehlo.computing import convolution, gather_attributes
from ingot.formats.stablehlo.equal_sizes import Size, equate
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.formats.stablehlo.shaping import broadcast
from ingot.formats.stablehlo.sizes import Sizes, sizes_of
from ingot.hlo.assertions import emit_assertion
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
    found = sizes_of(operand)
    if found is None:
        raise site.unsupported(
            f"{what} are computed from data",
            "sizes may depend on the sizes of arguments and on constants only",
        )
    return found


def _result(site: Site, sizes_operand: Instruction) -> Shape:
    """Return the result shape: MLIR's type when it is static, else of the computed sizes."""
    (declared,) = site.declared
    if declared is not None:
        return declared
    element = site.conversion.types.element(site.op.result.type)
    return Shape.array(element, _sizes(site, sizes_operand, "the sizes of its result"))


def _broadcast_in_dim(site: Site) -> Results:
    operand, sizes = site.operands
    shape = _result(site, sizes)
    places = integers(site.attributes["broadcast_dimensions"])
    for size, place in zip(operand.shape.dims, places, strict=True):
        if size != 1:
            equate(size, shape.dims[place])
    return broadcast(site, operand, places, shape)


def _reshape(site: Site) -> Results:
    operand, sizes = site.operands
    shape = _result(site, sizes)
    return site.emit(find("reshape"), (operand,), NO_ATTRIBUTES, shape)


def _iota(site: Site) -> Results:
    (place,) = integers(site.attributes["iota_dimension"])
    return site.emit(find("iota"), (), IotaAttributes(place), _result(site, site.operands[0]))


def _static(site: Site, operand: Instruction, what: str) -> tuple[int, ...]:
    found = _sizes(site, operand, what)
    numbers = tuple(size for size in found if isinstance(size, int))
    if len(numbers) != len(found):
        raise site.unsupported(f"{what} are symbolic sizes")
    return numbers


def _pad(site: Site) -> Results:
    operand, value, *bounds = site.operands
    names = ("its low paddings", "its high paddings", "its interior paddings")
    low, high, interior = (
        _static(site, bound, name) for bound, name in zip(bounds, names, strict=True)
    )
    attributes = PadAttributes(tuple(zip(low, high, interior, strict=True)))
    return site.emit(find("pad"), (operand, value), attributes, site.declared[0])


def _gather(site: Site) -> Results:
    operand, indices, sizes = site.operands
    attributes = gather_attributes(site, _sizes(site, sizes, "its slice sizes"))
    return site.emit(find("gather"), (operand, indices), attributes, site.declared[0])


def _real_dynamic_slice(site: Site) -> Results:
    operand, *bounds = site.operands
    starts, limits, strides = (sizes_of(bound) for bound in bounds)
    if starts is None or limits is None or strides is None:
        return _slice_at(site, operand, bounds[0], strides)
    rows: list[tuple[Size, Size, int]] = []
    for start, limit, stride in zip(starts, limits, strides, strict=True):
        if not isinstance(stride, int):
            raise site.unsupported("its strides are symbolic sizes")
        rows.append((start, limit, stride))
    return site.emit(find("slice"), (operand,), SliceAttributes(tuple(rows)), site.declared[0])


def _slice_at(
    site: Site, operand: Instruction, starts: Instruction, strides: Sizes | None
) -> Results:
    """Slice at places computed from data: the sizes of the result must be known."""
    shape = site.declared[0]
    if shape is None or strides is None or any(stride != 1 for stride in strides):
        raise site.unsupported("its bounds are computed from data, and so are the result's sizes")
    builder = site.builder
    places = [
        builder.reshape_to(builder.slice(starts, slice=((n, n + 1, 1),)), ())
        for n in range(shape.rank)
    ]
    attributes = SizesAttributes(shape.dims)
    return site.emit(find("dynamic-slice"), (operand, *places), attributes, shape)


def _convolution(site: Site) -> Results:
    flat = _static(site, site.operands[2], "its paddings")
    rows = tuple(zip(flat[::2], flat[1::2], strict=True))
    return convolution(site, rows)


def shape_assertion(site: Site) -> Results:
    """Add an assertion of JAX's on sizes; one that two sizes are equal makes them one."""
    flag = site.operands[0]
    if flag.opcode == "compare":
        left, right = (sizes_of(operand) for operand in flag.operands)
        if left is not None and right is not None and flag.attributes.direction == "EQ":
            equate(left[0], right[0])
    given = site.attributes
    text = given["error_message"].value if "error_message" in given else "a shape assertion failed"
    emit_assertion(site.builder, flag, text)
    return []


CONVERTERS: dict[str, Converter] = {
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.dynamic_conv": _convolution,
}

# SPDX-License-Identifier: Apache-2.0
"""Bounded dynamic dimensions, `f32[<=8]`: ops that set a size, and reshape by sizes.

Source: XLA operation semantics `SetDimensionSize`, `DynamicReshape`.
"""

from __future__ import annotations

from ingot.hlo.dtype import S32
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record, replace

FAMILY = "dynamic"


@record
class DimensionAttributes:
    """Attributes of `set-dimension-size`."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)


def _infer_set(view: OpView) -> Shape:
    operand, size = view.operands
    require(
        len(view.attributes.dimensions) == 1,
        "set_dimension_size_c1",
        "set-dimension-size takes one dimension",
    )
    dim: int = view.attributes.dimensions[0]
    require(0 <= dim < operand.rank, "set_dimension_size_c1", f"{operand} has no dimension {dim}")
    scalar = size.is_scalar and size.dtype is S32
    require(scalar, "set_dimension_size_i2", f"a size is an s32 scalar, not {size}")
    if view.declared is not None:
        return view.declared if view.declared.compatible(operand) else operand
    bounded = operand.bounded or (False,) * operand.rank
    return replace(operand, bounded=(*bounded[:dim], True, *bounded[dim + 1 :]))


def _infer_reshape(view: OpView) -> Shape:
    given = view.given()
    operand, *sizes = view.operands
    message = f"dynamic-reshape of {operand} with {len(sizes)} sizes cannot give {given}"
    require(operand.dtype is given.dtype, "dynamic_reshape_c1", message)
    require(len(sizes) == given.rank, "dynamic_reshape_c4", message)
    # A symbolic size may be set by the operands; plain ones must agree.
    fits = operand.size == given.size or not (operand.is_static and given.is_static)
    require(fits, "dynamic_reshape_c2", message)
    for size in sizes:
        require(
            size.is_scalar and size.dtype.is_integer,
            "dynamic_reshape_i2",
            f"a size is an integer scalar, not {size}",
        )
    return given


define("set-dimension-size", family=FAMILY, arity=2, infer=_infer_set,
       attributes=DimensionAttributes,
       doc="operand of which only the first elements count")  # fmt: skip
define("dynamic-reshape", family=FAMILY, arity=(1, None), infer=_infer_reshape,
       traits={Trait.NEEDS_SHAPE}, doc="reshape to computed sizes")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Dots beyond `dot`: over groups of rows, and of scaled operands.

`ragged-dot` has three forms, after where the ragged dimension is: in the lhs rows (each group of
rows meets its own rhs), in the contraction (one result per group), in a batch dimension (the groups
change nothing). `scaled-dot` multiplies each operand by scales that stand for blocks of elements.

Source: xla/service/shape_inference.cc (InferRaggedDotOpShape, InferScaledDotOpShape); StableHLO's
CHLO `ragged_dot`.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.interfaces import Trait
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.opset.contraction import DotAttributes, product_type
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "dots"


@record
class RaggedDotAttributes(DotAttributes):
    """Attributes of `ragged-dot`."""

    lhs_ragged_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    rhs_group_dims: tuple[int, ...] = attribute(Codec.INTS, ())

    def mode(self) -> str:
        """Return where the ragged dimension is: "rows", "contraction" or "batch"."""
        (ragged,) = self.lhs_ragged_dims
        if ragged in self.lhs_contracting_dims:
            return "contraction"
        return "batch" if ragged in self.lhs_batch_dims else "rows"


def _check(label: str, view: OpView, skipped: tuple[int, ...]) -> tuple[Shape, Shape]:
    """Check the dimension numbers of both operands; `skipped` ones of the rhs go nowhere."""
    lhs, rhs = view.operands[:2]
    given = view.as_(DotAttributes)
    for shape, dimensions in (
        (lhs, (*given.lhs_batch_dims, *given.lhs_contracting_dims)),
        (rhs, (*given.rhs_batch_dims, *given.rhs_contracting_dims, *skipped)),
    ):
        require(
            len(set(dimensions)) == len(dimensions),
            f"{label}_c3",
            f"dimensions {dimensions} repeat",
        )
        known = all(0 <= dimension < shape.rank for dimension in dimensions)
        require(known, f"{label}_c4", f"{shape} does not have all of the dimensions {dimensions}")
    for lefts, rights in (
        (given.lhs_batch_dims, given.rhs_batch_dims),
        (given.lhs_contracting_dims, given.rhs_contracting_dims),
    ):
        require(
            len(lefts) == len(rights),
            f"{label}_c1",
            "lhs and rhs have different numbers of dimensions here",
        )
        for left, right in zip(lefts, rights, strict=True):
            same = lhs.dims[left] == rhs.dims[right]
            require(same, f"{label}_c9", f"dimension {left} of {lhs} and {right} of {rhs} differ")
    return lhs, rhs


def _infer_ragged(view: OpView) -> Shape:
    given = view.as_(RaggedDotAttributes)
    require(
        len(given.lhs_ragged_dims) == 1,
        "ragged_dot_c1",
        "ragged-dot takes one ragged dimension of the lhs",
    )
    lhs, rhs = _check("ragged_dot", view, given.rhs_group_dims)
    sizes = view.operands[2]
    require(
        sizes.dtype.is_integer and sizes.rank >= 1,
        "ragged_dot_c2",
        f"group sizes are an array of integers, not {sizes}",
    )
    groups = sizes.dims[-1]
    mode = given.mode()
    grouped = mode == "rows"
    require(
        len(given.rhs_group_dims) == (1 if grouped else 0),
        "ragged_dot_c3",
        f"a ragged dimension in the {mode} has {int(grouped)} group dimensions of the rhs",
    )
    if grouped:
        (dimension,) = given.rhs_group_dims
        require(
            rhs.dims[dimension] == groups,
            "ragged_dot_c4",
            f"there are {groups} groups, but the rhs is {rhs}",
        )
    taken = (*given.rhs_batch_dims, *given.rhs_contracting_dims, *given.rhs_group_dims)
    dims = (
        *((groups,) if mode == "contraction" else ()),
        *(lhs.dims[dimension] for dimension in given.lhs_batch_dims),
        *(lhs.dims[dimension] for dimension in given.lhs_free_dims(lhs.rank)),
        *(rhs.dims[dimension] for dimension in range(rhs.rank) if dimension not in taken),
    )
    return Shape.array(product_type(view), dims)


def _infer_scaled(view: OpView) -> Shape:
    given = view.as_(DotAttributes)
    lhs, rhs = _check("scaled_dot", view, ())
    for operand, scale in ((lhs, view.operands[2]), (rhs, view.operands[3])):
        real = not (operand.dtype.is_complex or scale.dtype.is_complex)
        require(
            real,
            "scaled_dot_i1",
            f"scaled-dot takes real operands and scales, got {operand} and {scale}",
        )
        # A scalar scale stands for the whole operand.
        fits = not scale.dims or (
            scale.rank == operand.rank
            and all(
                part != 0 and dim.mod(size, part) == 0
                for size, part in zip(operand.dims, scale.dims, strict=True)
            )
        )
        require(fits, "scaled_dot_c1", f"scale {scale} does not fit operand {operand}")
    dims = (
        *(lhs.dims[dimension] for dimension in given.lhs_batch_dims),
        *(lhs.dims[dimension] for dimension in given.lhs_free_dims(lhs.rank)),
        *(rhs.dims[dimension] for dimension in given.rhs_free_dims(rhs.rank)),
    )
    return Shape.array(product_type(view), dims)


define("ragged-dot", family=FAMILY, arity=3, infer=_infer_ragged, attributes=RaggedDotAttributes,
       results="c5", traits={Trait.CONTRACTION},
       doc="a dot per group of neighbouring rows")  # fmt: skip
define("scaled-dot", family=FAMILY, arity=4, infer=_infer_scaled, attributes=DotAttributes,
       results="c2", traits={Trait.CONTRACTION},
       doc="dot of operands that are multiplied by scales of blocks")  # fmt: skip

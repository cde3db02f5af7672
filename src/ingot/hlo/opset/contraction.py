"""Contractions: `dot` with batch and contracting dimensions.

Source: StableHLO specification `dot_general` (labels as there); XLA's text attributes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape

FAMILY = "contraction"


@dataclass(frozen=True, slots=True)
class DotAttributes:
    """Attributes of `dot`; the result is batch dims, then lhs free dims, then rhs free dims."""

    lhs_batch_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    lhs_contracting_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    rhs_batch_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    rhs_contracting_dims: tuple[int, ...] = attribute(Codec.INTS, ())
    operand_precision: tuple[str, ...] = attribute(Codec.NAMES, ())
    algorithm: str = attribute(Codec.NAME, "")

    def lhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Return the lhs dimensions that go to the result, of an operand of `rank`."""
        taken = (*self.lhs_batch_dims, *self.lhs_contracting_dims)
        return tuple(place for place in range(rank) if place not in taken)

    def rhs_free_dims(self, rank: int) -> tuple[int, ...]:
        """Return the rhs dimensions that go to the result, of an operand of `rank`."""
        taken = (*self.rhs_batch_dims, *self.rhs_contracting_dims)
        return tuple(place for place in range(rank) if place not in taken)


def _check_places(label: str, places: tuple[int, ...], shape: Shape) -> None:
    require(len(set(places)) == len(places), label, f"dimension numbers {places} repeat")
    require(all(0 <= p < shape.rank for p in places), label, f"dimensions {places} of {shape}")


def _infer_dot(view: OpView) -> Shape:
    lhs, rhs = view.operands
    given: DotAttributes = view.attributes
    require(
        len(given.lhs_batch_dims) == len(given.rhs_batch_dims),
        "dot_general_c1",
        "as many lhs as rhs batch dimensions",
    )
    require(
        len(given.lhs_contracting_dims) == len(given.rhs_contracting_dims),
        "dot_general_c2",
        "as many lhs as rhs contracting dimensions",
    )
    _check_places("dot_general_c3", (*given.lhs_batch_dims, *given.lhs_contracting_dims), lhs)
    _check_places("dot_general_c4", (*given.rhs_batch_dims, *given.rhs_contracting_dims), rhs)
    for left, right in zip(given.lhs_batch_dims, given.rhs_batch_dims, strict=True):
        require(lhs.dims[left] == rhs.dims[right], "dot_general_c9", f"batch of {lhs} and {rhs}")
    for left, right in zip(given.lhs_contracting_dims, given.rhs_contracting_dims, strict=True):
        require(
            lhs.dims[left] == rhs.dims[right], "dot_general_c10", f"contraction of {lhs} and {rhs}"
        )
    dims = (
        *(lhs.dims[place] for place in given.lhs_batch_dims),
        *(lhs.dims[place] for place in given.lhs_free_dims(lhs.rank)),
        *(rhs.dims[place] for place in given.rhs_free_dims(rhs.rank)),
    )
    # The element type may be wider than the operands' (preferred_element_type): take the declared.
    element = view.declared.dtype if view.declared is not None else lhs.dtype
    return Shape.array(element, dims)


define("dot", family=FAMILY, arity=2, infer=_infer_dot, attributes=DotAttributes,
       spec="dot_general", doc="sums of products over contracting dimensions")  # fmt: skip

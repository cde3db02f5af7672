"""Reductions whose computation takes wider elements than the operands have.

StableHLO lets a region accumulate in a wider type (`is_promotable` of the specification); HLO's
computations take what the operands are. So the operands are converted first, which means the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.formats.stablehlo.scope import Site
from ingot.hlo.instruction import Instruction

# Which argument of the region takes elements of which operand, by the number of operands.
_PLACES: dict[str, Callable[[int], list[int | None]]] = {
    "stablehlo.all_reduce": lambda count: [0] * count,
    "stablehlo.reduce": lambda count: [*range(count // 2)] * 2,
    "stablehlo.reduce_scatter": lambda count: [0] * count,
    "stablehlo.reduce_window": lambda count: [*range(count // 2)] * 2,
    "stablehlo.scatter": lambda count: [*range(count // 2), None, *range(count // 2, count - 1)],
}
PROMOTED = frozenset(_PLACES)


def promoted(site: Site) -> list[Instruction]:
    """Return the operands in the types that the region accumulates in."""
    arguments: Any = site.op.regions[0].blocks[0].arguments
    found: list[Instruction] = []
    for operand, place in zip(site.operands, _PLACES[site.name](len(site.operands)), strict=True):
        given = operand.shape.dtype
        shape = None if place is None else site.conversion.types.shape(arguments[place].type)
        if shape is None or shape.dtype.kind is not given.kind or shape.dtype.bits <= given.bits:
            found.append(operand)
        else:
            found.append(site.builder.convert_to(operand, shape.dtype))
    return found

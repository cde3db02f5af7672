# SPDX-License-Identifier: Apache-2.0
"""Reductions whose computation takes wider elements than the operands have.

StableHLO lets a region accumulate in a wider type (`is_promotable` of the specification); HLO's
computations take the operands' types. So the operands are converted first, which is equivalent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.formats.stablehlo.scope import Site
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction

# The region's argument that takes elements of each operand, by the number of operands.
_ARGUMENTS: dict[str, Callable[[int], list[int | None]]] = {
    "stablehlo.all_reduce": lambda count: [0] * count,
    "stablehlo.reduce": lambda count: [*range(count // 2)] * 2,
    "stablehlo.reduce_scatter": lambda count: [0] * count,
    "stablehlo.reduce_window": lambda count: [*range(count // 2)] * 2,
    "stablehlo.scatter": lambda count: [*range(count // 2), None, *range(count // 2, count - 1)],
}
PROMOTED = frozenset(_ARGUMENTS)


def promoted(site: Site) -> list[Instruction]:
    """Return the operands in the types that the region accumulates in; quantized ones stay."""
    arguments: Any = site.op.regions[0].blocks[0].arguments
    found: list[Instruction] = []
    numbers = _ARGUMENTS[site.name](len(site.operands))
    for operand, number in zip(site.operands, numbers, strict=True):
        wide = None if number is None else _wider(site, arguments[number].type, operand.shape.dtype)
        found.append(operand if wide is None else site.builder.convert_to(operand, wide))
    return found


def _wider(site: Site, argument: Any, given: DType) -> DType | None:
    """Return the type of a region's argument, if it is a wider one of the same kind."""
    types = site.conversion.types
    shape = types.shape(argument)
    if shape is None or types.quantization(argument) is not None:
        return None
    element = shape.dtype
    return element if element.kind is given.kind and element.bits > given.bits else None

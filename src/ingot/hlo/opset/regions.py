# SPDX-License-Identifier: Apache-2.0
"""Signatures of the computations that reduce, window, scatter, sort, map and collective ops apply.

A computation takes and returns scalars of exactly the operands' element types, as XLA's verifier
requires; StableHLO's wider regions are converted around the op (`formats.stablehlo.promotion`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import DType
from ingot.hlo.opdef import require
from ingot.hlo.shape import Shape


def require_region(
    label: str, region: Computation, takes: Sequence[DType], gives: Sequence[DType]
) -> None:
    """Require that a computation takes scalars of types `takes` and returns those of `gives`."""
    given = [parameter.shape for parameter in region.parameters]
    result = region.root.shape
    results = result.parts
    for word, shapes, wanted in (("takes", given, takes), ("gives", results, gives)):
        fits = len(shapes) == len(wanted) and all(
            shape.is_scalar and shape.dtype is element
            for shape, element in zip(shapes, wanted, strict=True)
        )
        if not fits:
            listed = ", ".join(f"{element}[]" for element in wanted)
            message = f"computation {region.name} {word} {_listed(shapes)}, not {listed}"
            require(False, label, message)


def require_reducer(
    label: str, region: Computation, inputs: Sequence[Shape], starts: Sequence[Shape], init: str
) -> None:
    """Require scalar initial values of the inputs' types (`init`), and a computation on both."""
    for given, start in zip(inputs, starts, strict=True):
        if start.dims or start.dtype is not given.dtype:
            require(False, init, f"initial value {start} does not have the type of {given}")
    elements = [given.dtype for given in inputs]
    require_region(label, region, elements * 2, elements)


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes)) or "nothing"

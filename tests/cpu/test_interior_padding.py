# SPDX-License-Identifier: Apache-2.0
"""Padding between elements, moved and cropped at both ends: pieces count from their beginnings."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse_hlo
from ingot.llvm.target import host_levels

TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "u8": np.uint8}

Padding = tuple[tuple[int, int, int], ...]


def _check(shape: tuple[int, ...], padding: Padding, element: str = "f32", level: str = "") -> None:
    sides = zip(shape, padding, strict=True)
    after = [max(n + low + high + max(n - 1, 0) * step, 0) for n, (low, high, step) in sides]
    how = "x".join(f"{low}_{high}_{step}" for low, high, step in padding)
    before, result = (",".join(map(str, dims)) for dims in (shape, after))
    module = parse_hlo(f"""HloModule padded

ENTRY main {{
  x = {element}[{before}] parameter(0)
  z = {element}[] constant(7)
  p = {element}[{result}] pad(x, z), padding={how}
  ROOT r = {element}[{result}] add(p, p)
}}
""")
    x = (np.arange(np.prod(shape)).reshape(shape) % 100).astype(TYPES[element])
    agrees(module, [x], level=level)


def test_moved_rows() -> None:
    _check((9, 40), ((1, 2, 1), (3, 1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3, 4, 6, 7, 10])
@pytest.mark.parametrize("ends", [(0, 0), (1, 2), (3, 1), (-1, 2), (-3, -5), (20, -3), (-2, 70)])
def test_ends_and_steps(ends: tuple[int, int], step: int) -> None:
    for level in host_levels():
        for shape in ((5, 33), (3, 64), (7, 1)):
            outer = (1, 2, 1) if ends[0] > 0 else (-1, 0, 2)
            if shape[-1] > 1:
                _check(shape, (outer, (*ends, step)), level=level)
            _check(shape, ((0, 0, 0), (max(ends[0], 0), 5, step)), level=level)


@pytest.mark.slow
@pytest.mark.parametrize("element", TYPES)
def test_types(element: str) -> None:
    for step in (1, 2, 3):
        _check((6, 50), ((2, 1, 1), (5, 3, step)), element)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3])
def test_long_axes_of_many_blocks(step: int) -> None:
    """A piece is cut where blocks of lanes end, not where blocks of the axis do."""
    for low in (1, 16, 37):
        _check((400_000,), ((low, 3, step),))

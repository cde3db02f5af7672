# SPDX-License-Identifier: Apache-2.0
"""Pooling without padding runs in library code, the same at every size, with the right results."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.strategies import library_parts
from tests.support.against_evaluator import agrees

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import dtype
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension
from ingot.kernel.generic import reduction

START = {"add": 0, "maximum": -np.inf, "minimum": np.inf}


def _pool(
    element: str, opcode: str, dims: tuple[int, ...], sizes: tuple[int, ...], strides: int
) -> Module:
    """Return windows over all dimensions but the first and the last."""
    build = Builder("main")
    kind = dtype(element)
    x = build.parameter(0, Shape.array(element, dims))
    start = kind.numpy.type(START[opcode] if kind.is_float else 0 if opcode != "minimum" else 100)
    window: Window = (
        WindowDimension(1),
        *(WindowDimension(size, strides) for size in sizes),
        WindowDimension(1),
    )
    root = build.reduce_window(
        x, build.constant(start), window=window, to_apply=scalar_computation(opcode, element)
    )
    return Module.of("pool", build.build(root))


def _check(module: Module, element: str, dims: tuple[int, ...]) -> list[str]:
    """Compare with the evaluator; return the library parts that ran."""
    values = np.random.default_rng(0).integers(0, 50, dims).astype(dtype(element).numpy)
    if dtype(element).is_float:
        values.reshape(-1)[:3] = np.nan, -np.inf, -0.0
    return library_parts(agrees(module, [values]).executable)


@pytest.mark.parametrize("channels", [7, 13, 32])
@pytest.mark.parametrize(("sizes", "stride"), [((2, 2), 2), ((3, 2), 1), ((3,), 2)], ids=str)
def test_sizes(
    channels: int, sizes: tuple[int, ...], stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "MIN_ELEMENTS", 0)
    for images, side in ((1, 5), (3, 7), (2, 12)):
        dims = (images, *(side + n for n, _ in enumerate(sizes)), channels)
        parts = _check(_pool("f32", "maximum", dims, sizes, stride), "f32", dims)
        assert channels < 32 or parts != []


@pytest.mark.parametrize("element", ["f32", "bf16", "s32", "u8"])
@pytest.mark.parametrize("opcode", START)
def test_types(element: str, opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "MIN_ELEMENTS", 0)
    for channels in (3, 64):
        dims = (2, 6, 6, channels)
        parts = _check(_pool(element, opcode, dims, (2, 2), 2), element, dims)
        # Sums of bf16 are made in f32 and rounded.
        assert channels < 64 or parts != [] or (element, opcode) == ("bf16", "add")


def test_sizes_share_the_code() -> None:
    first, second = ((8, 33, 31, 64), (3, 47, 61, 64))
    parts = [_check(_pool("f32", "add", dims, (2, 2), 2), "f32", dims) for dims in (first, second)]
    assert parts[0] == parts[1] != []


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3, 17, 1003])
def test_large(channels: int) -> None:
    for dims, sizes in (((2, 131, 77, channels), (3, 3)), ((1, 203, 64, channels), (2, 2))):
        _check(_pool("f32", "maximum", dims, sizes, 2), "f32", dims)

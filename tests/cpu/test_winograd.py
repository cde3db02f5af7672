# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions: every border, size and epilogue, as accurate as direct sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.kernel.convolution.winograd import Winograd, winograd
from ingot.kernel.ir import ConvolutionKernel
from ingot.kernel.lowering import lower_fusion
from ingot.llvm.machine_model import Vectors

Padding = tuple[tuple[int, int], tuple[int, int]]
SAME: Padding = ((1, 1), (1, 1))


def _module(
    image: tuple[int, ...],
    taps: tuple[int, ...],
    padding: Padding,
    element: str = "f32",
    *,
    epilogue: bool = False,
    reversal: bool = False,
) -> Module:
    build = Builder("main")
    x = build.parameter(0, Shape.array(element, image))
    k = build.parameter(1, Shape.array(element, taps))
    window = tuple(
        WindowDimension(size, low=low, high=high, reversal=reversal)
        for size, (low, high) in zip(taps, padding, strict=False)
    )
    root = build.convolution(x, k, window=window, dim_labels="b01f_01io->b01f")
    if epilogue:
        bias = build.parameter(2, Shape.array(element, taps[-1:]))
        wide = build.broadcast(bias, shape=root.shape, dimensions=(3,))
        root = build.maximum(build.add(root, wide), build.full(0, root.shape))
    return Module.of("winograd", build.build(root))


def _plan(module: Module) -> Winograd | None:
    kernel = lower_fusion(module.entry)
    assert isinstance(kernel, ConvolutionKernel)
    found = winograd(kernel, Vectors(512, 32))
    return None if isinstance(found, str) else found


def _reference(x: np.ndarray, k: np.ndarray, padding: Padding) -> np.ndarray:
    """Return the convolution in f64; negative padding cuts."""
    x, k = x.astype(np.float64), k.astype(np.float64)
    padded = np.pad(x, ((0, 0), *((max(low, 0), max(high, 0)) for low, high in padding), (0, 0)))
    cuts = tuple(slice(max(-low, 0), -max(-high, 0) or None) for low, high in padding)
    padded = padded[:, cuts[0], cuts[1]]
    rows, columns = padded.shape[1] - 2, padded.shape[2] - 2
    parts = [padded[:, y : y + rows, z : z + columns] @ k[y, z] for y in range(3) for z in range(3)]
    return np.sum(parts, axis=0)


def _inputs(module: Module) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        generator.standard_normal(item.shape.dims).astype(item.shape.dtype.numpy)
        for item in module.entry.parameters
    ]


def _run(module: Module, *inputs: np.ndarray) -> Any:
    return ingot.compile(module)(*inputs)


CASES = (
    ((1, 56, 56, 64), 64, SAME),
    ((2, 13, 15, 32), 96, SAME),
    ((3, 14, 14, 48), 32, ((0, 0), (0, 0))),
    ((8, 7, 7, 128), 64, SAME),
    ((2, 20, 12, 64), 128, ((2, 0), (0, 3))),
    ((2, 20, 16, 64), 64, ((-1, 1), (2, -2))),
)


@pytest.mark.slow
@pytest.mark.parametrize(("image", "features", "padding"), CASES)
@pytest.mark.parametrize("epilogue", [False, True])
def test_borders_and_sizes(image, features: int, padding: Padding, epilogue: bool) -> None:
    module = _module(image, (3, 3, image[-1], features), padding, epilogue=epilogue)
    assert _plan(module) is not None
    inputs = _inputs(module)
    wanted = _reference(*inputs[:2], padding)
    if epilogue:
        wanted = np.maximum(wanted + inputs[2], 0)
    found = _run(module, *inputs)
    assert np.abs(found - wanted).max() < 2e-6 * np.abs(wanted).max()


@pytest.mark.slow
def test_f64_and_reversed_taps() -> None:
    module = _module((2, 14, 14, 64), (3, 3, 64, 64), SAME, "f64", reversal=True)
    x, k = _inputs(module)
    wanted = _reference(x, k[::-1, ::-1], SAME)
    assert np.abs(_run(module, x, k) - wanted).max() < 1e-14 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "channels"), [(28, 64), (14, 256)])
def test_the_error_is_no_more_than_that_of_direct_sums(size: int, channels: int) -> None:
    module = _module((1, size, size, channels), (3, 3, channels, channels), SAME)
    assert _plan(module) is not None
    x, k = _inputs(module)
    wanted = _reference(x, k, SAME)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    direct = np.zeros(wanted.shape, np.float32)
    for y, z, c in np.ndindex(3, 3, channels):
        part = padded[:, y : y + size, z : z + size, c, None].astype(np.float64)
        direct = (direct + part * k[y, z, c]).astype(np.float32)
    error, of_direct = _run(module, x, k) - wanted, direct - wanted
    assert np.abs(error).max() < np.abs(of_direct).max()
    assert np.sqrt(np.mean(error**2)) < np.sqrt(np.mean(of_direct**2))


def test_windows_over_zeros_give_zeros() -> None:
    module = _module((1, 28, 28, 64), (3, 3, 64, 64), SAME)
    x, k = _inputs(module)
    x[:, 10:20, 10:20] = 0
    assert not _run(module, x, k)[:, 11:19, 11:19].any()


@pytest.mark.parametrize(
    ("image", "taps"),
    [
        ((1, 56, 56, 64), (3, 3, 64, 40)),
        ((1, 56, 56, 16), (3, 3, 16, 64)),
        ((1, 56, 56, 64), (5, 5, 64, 64)),
        ((1, 3, 3, 512), (3, 3, 512, 512)),
    ],
)
def test_convolutions_that_winograd_refuses(image: tuple[int, ...], taps: tuple[int, ...]) -> None:
    assert _plan(_module(image, taps, SAME)) is None

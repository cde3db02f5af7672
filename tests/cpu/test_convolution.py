# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the CPU: random windows, layouts, groups and types against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.passes.simplify.convolutions import phases

pytestmark = pytest.mark.fast_share(4)

LAYOUTS = (
    ("b01f", "01io", "b01f"),
    ("bf01", "oi01", "bf01"),
    ("f01b", "i01o", "01bf"),
    ("b01f", "01oi", "b01f"),
    ("01bf", "io01", "f01b"),
)
TOLERANCE = {"f32": 2e-5, "f64": 1e-13, "bf16": 2e-2, "f16": 2e-3, "s32": 0}


def _choose(rng: np.random.Generator, *values: int) -> int:
    return int(rng.choice(values))


def _window(rng: np.random.Generator, size: int) -> WindowDimension:
    taps = _choose(rng, 1, 2, 3, 4)
    one = WindowDimension(
        taps,
        _choose(rng, 1, 1, 2, 3),
        _choose(rng, -1, 0, 0, 1, 2, 3),
        _choose(rng, -1, 0, 1, 2),
        _choose(rng, 1, 1, 1, 2, 3),
        _choose(rng, 1, 1, 1, 2),
        bool(rng.integers(3) == 0),
    )
    fits = one.count(size)
    return one if isinstance(fits, int) and fits > 0 else WindowDimension(1)


def _sizes(labels: str, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(sizes[letter] for letter in labels)


def _random(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    values = (
        rng.integers(-4, 5, shape.dims) if shape.dtype.is_integer else rng.normal(size=shape.dims)
    )
    return np.asarray(values).astype(shape.dtype.numpy)


def _case(seed: int, element: str = "f32", wide: bool = False) -> tuple[Module, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    lhs, rhs, output = LAYOUTS[seed % len(LAYOUTS)]
    groups = _choose(rng, 1, 1, 2, 3)
    by_batch = bool(rng.integers(2))
    inputs = _choose(rng, 17, 40) if wide else _choose(rng, 1, 2, 3, 5, 8, 16)
    features = groups * (_choose(rng, 24, 37) if wide else _choose(rng, 1, 2, 4, 5, 16))
    batch = _choose(rng, 1, 2, 3)
    sizes = {"b": batch * (groups if by_batch else 1), "f": inputs * (1 if by_batch else groups)}
    sizes |= {"0": _choose(rng, 1, 5, 9), "1": _choose(rng, 3, 6, 20)}
    window = tuple(_window(rng, sizes[letter]) for letter in "01")
    taps = {"i": inputs, "o": features, "0": window[0].size, "1": window[1].size}
    build = Builder("main")
    x = build.parameter(0, Shape.array(element, _sizes(lhs, sizes)))
    k = build.parameter(1, Shape.array(element, _sizes(rhs, taps)))
    root = build.convolution(
        x,
        k,
        window=window,
        dim_labels=f"{lhs}_{rhs}->{output}",
        feature_group_count=1 if by_batch else groups,
        batch_group_count=groups if by_batch else 1,
    )
    module = Module.of("convolution", build.build(root))
    return module, [_random(rng, x.shape), _random(rng, k.shape)]


@pytest.mark.parametrize("seed", range(40))
def test_small(seed: int) -> None:
    agrees(*_case(seed), of_largest=TOLERANCE["f32"])


@pytest.mark.parametrize("seed", range(5))
def test_wide(seed: int) -> None:
    agrees(*_case(seed, wide=True), of_largest=TOLERANCE["f32"])


@pytest.mark.parametrize("seed", range(40, 64))
def test_spread_inputs_without_gaps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "MIN_GROUPED_PRODUCTS", 0)
    agrees(*_case(seed), of_largest=TOLERANCE["f32"])


@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "f01b_i01o->01bf"])
def test_long_sums(labels: str) -> None:
    """Sums longer than a block of k, whose segments a block cuts."""
    build = Builder("main")
    x = build.parameter(0, "f32[3,12,11,150]")
    dims = (3, 3, 150, 9) if labels[0] == "b" else (3, 12, 11, 9)
    k = build.parameter(1, Shape.array("f32", dims))
    ones = WindowDimension(3, 1, 1, 1)
    window = (
        (ones, ones)
        if labels[0] == "b"
        else tuple(WindowDimension(size, 1, 1, 1) for size in (12, 11))
    )
    root = build.convolution(x, k, window=window, dim_labels=labels)
    rng = np.random.default_rng(0)
    inputs = [_random(rng, x.shape), _random(rng, k.shape)]
    agrees(Module.of("convolution", build.build(root)), inputs, of_largest=TOLERANCE["f32"])


def test_epilogue_is_fused_for_any_batch() -> None:
    """Bias, residual and relu at a symbolic batch: one kernel."""
    build = Builder("main")
    x, k = build.parameter(0, "f32[?n,6,5,8]"), build.parameter(1, "f32[3,3,8,8]")
    bias, other = build.parameter(2, "f32[8]"), build.parameter(3, "f32[?n,6,5,8]")
    window = (WindowDimension(3, 1, 1, 1),) * 2
    y = build.convolution(x, k, window=window, dim_labels="b01f_01io->b01f")
    y = build.add(build.add(y, build.broadcast_to(bias, y.shape.dims)), other)
    module = Module.of("block", build.build(build.maximum(y, build.full(0.0, y.shape))))
    executable = ingot.compile(module)
    assert len(executable.kernels) == 1
    rng = np.random.default_rng(0)
    for batch in (1, 4):
        shapes = ((batch, 6, 5, 8), (3, 3, 8, 8), (8,), (batch, 6, 5, 8))
        inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        np.testing.assert_allclose(executable(*inputs), evaluate(module, inputs), atol=1e-4)


@pytest.mark.parametrize("element", ["f64", "bf16", "f16", "s32"])
@pytest.mark.parametrize("seed", [0, 2])
def test_types(seed: int, element: str) -> None:
    agrees(*_case(seed, element), of_largest=TOLERANCE[element])


@pytest.mark.parametrize("features", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("element", ["f32", "s32"])
def test_few_features_of_long_sums(features: int, element: str) -> None:
    """Dot products with lanes along k, of rows that meet padding on every side or none."""
    build = Builder("main")
    x = build.parameter(0, Shape.array(element, (2, 9, 17, 20)))
    k = build.parameter(1, Shape.array(element, (3, 3, 20, features)))
    window = (WindowDimension(3, 1, 1, 1), WindowDimension(3, 2, 2, 1))
    root = build.convolution(x, k, window=window, dim_labels="b01f_01io->b01f")
    rng = np.random.default_rng(0)
    inputs = [_random(rng, x.shape), _random(rng, k.shape)]
    agrees(Module.of("convolution", build.build(root)), inputs, of_largest=TOLERANCE[element])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("reversal", [False, True])
def test_filter_gradient_with_padding(stride: int, reversal: bool) -> None:
    """Patches with lanes along m; segments of k that meet padding at either end."""
    build = Builder("main")
    x, g = build.parameter(0, "f32[3,11,13,21]"), build.parameter(1, "f32[3,11,13,40]")
    window = (
        WindowDimension(11, stride, 1, 1, reversal=reversal),
        WindowDimension(13, stride, 2, 3, reversal=reversal),
    )
    root = build.convolution(x, g, window=window, dim_labels="f01b_i01o->01bf")
    rng = np.random.default_rng(0)
    inputs = [_random(rng, x.shape), _random(rng, g.shape)]
    agrees(Module.of("convolution", build.build(root)), inputs, of_largest=TOLERANCE["f32"])


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(("size", "taps"), [(1, 1), (7, 3), (13, 13), (1003, 64), (4099, 31)])
def test_one_signal(element: str, size: int, taps: int) -> None:
    """One row of weights, many positions side by side: NumPy's `convolve`."""
    pad = taps - 1
    text = f"""HloModule signal

ENTRY main {{
  x = {element}[1,1,{size}] parameter(0)
  w = {element}[1,1,{taps}] parameter(1)
  ROOT y = {element}[1,1,{size + pad}] convolution(x, w), window={{size={taps} pad={pad}_{pad} rhs_reversal=1}}, dim_labels=bf0_oi0->bf0
}}
"""  # noqa: E501
    random = np.random.default_rng(size)
    kind = np.float32 if element == "f32" else np.float64
    x, w = (random.random(length).astype(kind) for length in (size, taps))
    found = np.asarray(ingot.compile(ingot.parse_hlo(text))(x[None, None], w[None, None]))
    np.testing.assert_allclose(found[0, 0], np.convolve(x, w), rtol=1e-5)


@pytest.mark.parametrize("width", [2, 4, 9])
@pytest.mark.parametrize("window", ["1x1 lhs_dilate=1x2", "1x1 pad=0_1x0_1 lhs_dilate=2x2"])
def test_between_the_elements_of_a_dilated_input_of_one_channel_are_zeros(window, width) -> None:
    # Lanes between elements are off, and have the element of the lane before them.
    rows, columns = (5, 2 * width - 1) if "pad" not in window else (10, 2 * width)
    module = ingot.parse_hlo(f"""HloModule dilated
        ENTRY main {{
          x = f32[2,5,{width},1] parameter(0)
          k = f32[1,1,1,1] parameter(1)
          ROOT c = f32[2,{rows},{columns},1] convolution(x, k),
            window={{size={window}}}, dim_labels=b01f_01io->b01f
        }}""")
    inputs = [
        np.arange(1, 10 * width + 1, dtype=np.float32).reshape(2, 5, width, 1),
        np.full((1, 1, 1, 1), 3, np.float32),
    ]
    np.testing.assert_array_equal(ingot.compile(module)(*inputs), evaluate(module, inputs))

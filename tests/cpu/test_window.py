# SPDX-License-Identifier: Apache-2.0
"""Windows on the CPU: reductions and max-pool gradients against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension

pytestmark = pytest.mark.fast_share(4)

START = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "multiply": 1.0}


def _window(rng: np.random.Generator, sizes: tuple[int, ...], spread: bool) -> Window:
    found: list[WindowDimension] = []
    for size in sizes:
        one = WindowDimension(
            int(rng.choice([1, 2, 3])),
            int(rng.choice([1, 2, 3])),
            int(rng.choice([0, 0, 1, 2])),
            int(rng.choice([0, 0, 1])),
            int(rng.choice([1, 2])) if spread else 1,
            int(rng.choice([1, 1, 2])),
        )
        count = one.count(size)
        found.append(one if isinstance(count, int) and count > 0 else WindowDimension(1))
    return (WindowDimension(1), *found, WindowDimension(1))


def _check(module: Module, *inputs: np.ndarray, tolerance: float = 1e-5) -> None:
    agrees(module, inputs, rtol=tolerance, atol=tolerance)


WIDE = [
    ((size,), width, opcode)
    for size, width, opcode in [
        (9, 9, "add"), (16, 9, "maximum"), (17, 9, "add"), (40, 9, "minimum"), (333, 9, "add"),
        (1000, 12, "maximum"), (1000, 5, "add"),
    ]
] + [((3, 40), 9, "add"), ((2, 3, 21, 50), 5, "add")]  # fmt: skip


@pytest.mark.parametrize(("dims", "width", "opcode"), WIDE)
def test_wide_windows(dims: tuple[int, ...], width: int, opcode: str) -> None:
    """Windows whose masks change at many places near the ends; in images along both dimensions."""
    low, high = (width - 1) // 2, width // 2
    wide = WindowDimension(width, low=low, high=high)
    window = tuple(wide if n >= len(dims) - max(1, len(dims) - 2) else WindowDimension(1)
                   for n in range(len(dims)))  # fmt: skip
    build = Builder("main")
    x = build.parameter(0, Shape.array("f32", dims))
    start = build.constant(np.float32(START[opcode]))
    combine = scalar_computation(opcode, "f32")
    root = build.reduce_window(x, start, window=window, to_apply=combine)
    values = np.random.default_rng(width).standard_normal(dims).astype(np.float32)
    _check(Module.of("wide", build.build(root)), values)


@pytest.mark.parametrize("seed", range(12))
def test_reduce_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (int(rng.choice([1, 4, 7])), int(rng.choice([2, 5])))
    window = _window(rng, sizes, spread=True)
    opcode = list(START)[seed % 4]
    build = Builder("main")
    x = build.parameter(0, Shape.array("f32", (3, *sizes, int(rng.choice([1, 5, 19])))))
    start = build.constant(np.float32(START[opcode]))
    adder = scalar_computation(opcode, "f32")
    root = build.reduce_window(x, start, window=window, to_apply=adder)
    module = Module.of("windows", build.build(root))
    values = rng.normal(size=x.shape.dims).astype(np.float32)
    values.reshape(-1)[0] = np.nan
    _check(module, values)


def test_several_operands() -> None:
    """The greatest element of each window and its number, the first among equals."""
    b = Builder("greatest")
    v0, n0, v1, n1 = (b.parameter(n, f"{e}[]") for n, e in enumerate(("f32", "s32") * 2))
    keep = b.compare(v0, v1, direction="GE")
    reducer = b.build(b.tuple(b.select(keep, v0, v1), b.select(keep, n0, n1)))
    build = Builder("main")
    x, n = build.parameter(0, "f32[2,6,5]"), build.parameter(1, "s32[2,6,5]")
    starts = (build.constant(np.float32(-np.inf)), build.constant(np.int32(-1)))
    window = (WindowDimension(1), WindowDimension(3, 2, 1, 0), WindowDimension(2, 1, 0, 1))
    root = build.reduce_window(x, n, *starts, window=window, to_apply=reducer)
    values = np.random.default_rng(0).integers(0, 4, (2, 6, 5)).astype(np.float32)
    numbers = np.arange(60, dtype=np.int32).reshape(2, 6, 5)
    _check(Module.of("windows", build.build(root)), values, numbers, tolerance=0)


def test_fuses_what_feeds_and_follows() -> None:
    build = Builder("main")
    x = build.parameter(0, "f32[2,8,8,16]")
    y = build.maximum(x, build.full(0.0, x.shape))
    window = (WindowDimension(1), WindowDimension(2, 2), WindowDimension(2, 2), WindowDimension(1))
    adder = scalar_computation("add", "f32")
    total = build.reduce_window(y, build.constant(np.float32(0)), window=window, to_apply=adder)
    root = build.multiply(total, build.full(0.25, total.shape))
    module = Module.of("pool", build.build(root))
    executable = ingot.compile(module)
    values = np.random.default_rng(0).normal(size=x.shape.dims).astype(np.float32)
    np.testing.assert_allclose(executable(values), evaluate(module, [values]), rtol=1e-6)
    assert len(executable.kernels) == 1


def _at_least() -> Computation:
    b = Builder("at_least")
    left, right = b.parameter(0, "f32[]"), b.parameter(1, "f32[]")
    return b.build(b.compare(left, right, direction="GE"))


@pytest.mark.parametrize("batch", [3, "?n"])
@pytest.mark.parametrize("seed", range(10))
def test_select_and_scatter(seed: int, batch: int | str) -> None:
    rng = np.random.default_rng(seed)
    sizes = (int(rng.choice([4, 7])), int(rng.choice([5, 6])))
    window = _window(rng, sizes, spread=False)
    if seed % 2:
        whole = WindowDimension(1)
        window = (whole, WindowDimension(2, 2), WindowDimension(2, 2, 0, seed % 4 // 2), whole)
    text = f"f32[{batch},{sizes[0]},{sizes[1]},6]"
    build = Builder("main")
    x = build.parameter(0, text)
    counts = [one.count(size) for one, size in zip(window, x.shape.dims, strict=True)]
    source = build.parameter(1, Shape.array("f32", counts))
    root = build.select_and_scatter(
        x,
        source,
        build.constant(np.float32(0.5)),
        window=window,
        select=_at_least(),
        scatter=scalar_computation("add", "f32"),
    )
    known = (3, *counts[1:])
    values = rng.integers(0, 5, (3, *sizes, 6)).astype(np.float32)
    _check(Module.of("gradient", build.build(root)), values, rng.normal(size=known).astype("f4"))

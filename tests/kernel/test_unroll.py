# SPDX-License-Identifier: Apache-2.0
"""Short rows and windows written out: same results, no loops, every element loaded once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel.programs import REDUCERS, SOFTMAX

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.passes.unroll import unroll_short_rows, unroll_windows

pytestmark = pytest.mark.fast_share(4)


def _softmax(rows: str, classes: int, element: str = "f32") -> Module:
    body = SOFTMAX.replace("?n", rows).replace(",64]", f",{classes}]").replace("f32", element)
    reducers = REDUCERS.replace("f32", element)
    return parse(f"HloModule softmax\n{reducers}\nENTRY main {{\n  {body}\n}}\n")


def _kernel(rows: str, classes: int) -> LoopKernel:
    return unroll_short_rows(collapse(build_loop_kernel(_softmax(rows, classes).entry)))


def test_every_element_is_loaded_once() -> None:
    kernel = _kernel("?n", 10)
    assert [len(item.axes) for item in kernel.passes] == [0]
    assert sum(1 for node in walk(kernel.exprs) if node.op == "load") == 10
    assert len(kernel.passes[0].stores) == 10


@pytest.mark.parametrize(("rows", "classes"), [("?n", 64), ("8", 10)])
def test_long_rows_and_few_rows_stay_loops(rows: str, classes: int) -> None:
    assert any(item.axes for item in _kernel(rows, classes).passes)


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("classes", [2, 3, 10, 12])
def test_against_the_evaluator(element: str, classes: int) -> None:
    for rows in (64, 65, 200):
        module = _softmax(str(rows), classes, element)
        random = np.random.default_rng(rows)
        values = random.normal(size=(rows, classes)) * 3
        values[3, 1], values[5] = np.nan, -np.inf
        given = values.astype(module.entry.parameters[0].shape.dtype.numpy)
        found = np.asarray(ingot.compile(module)(given), np.float64)
        expected = np.asarray(evaluate(module, [given]), np.float64)
        tolerance = 2e-2 if element == "bf16" else 1e-6
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-9)


def _pool(element: str, width: int, row: WindowDimension, op: str) -> Module:
    build = Builder("pool")
    x = build.parameter(0, Shape.array(element, (6, 9, width)))
    column = WindowDimension(3, stride=2, low=0, high=1)
    start = build.constant(0 if op == "add" else 1, element)
    reducer = scalar_computation(op, element)
    window = (WindowDimension(1), column, row)
    return Module.of(
        "pool", build.build(build.reduce_window(x, start, window=window, to_apply=reducer))
    )


WINDOWS = (
    WindowDimension(3, stride=2, low=0, high=1),
    WindowDimension(3, low=1, high=1),
    WindowDimension(5, stride=3, low=2, high=2),
    WindowDimension(3, low=2, high=2, window_dilation=2),
    WindowDimension(2, low=1, base_dilation=2),
)


@pytest.mark.slow
@pytest.mark.parametrize("element", ["f32", "s32", "u8", "bf16"])
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("row", WINDOWS)
def test_windows_along_rows(element: str, op: str, row: WindowDimension) -> None:
    for width in (7, 56, 131):
        module = _pool(element, width, row, op)
        kernel = collapse(build_loop_kernel(module.entry))
        is_unrolled = [len(item.axes) for item in unroll_windows(kernel).passes] == [0]
        assert is_unrolled == (row.base_dilation == 1)
        x = (
            np.random.default_rng(width)
            .integers(0, 100, (6, 9, width))
            .astype(module.entry.parameters[0].shape.dtype.numpy)
        )
        assert np.array_equal(ingot.compile(module)(x), evaluate(module, [x]))


def test_large_windows_and_windows_of_other_axes_stay_loops() -> None:
    wide = _pool("f32", 64, WindowDimension(16, low=15), "add")
    across = _pool("f32", 64, WindowDimension(1), "add")
    for module in (wide, across):
        kernel = collapse(build_loop_kernel(module.entry))
        assert unroll_windows(kernel) is kernel

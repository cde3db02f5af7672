"""Short rows written out: same results, no loops, every element loaded once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel.programs import REDUCERS, SOFTMAX

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.module import Module
from ingot.kernel.collapse import collapse
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loops import build_loop_kernel
from ingot.kernel.unroll import unroll_short_rows


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

# SPDX-License-Identifier: Apache-2.0
"""Every op over arrays without elements is as the evaluator has it.

What has elements all the same (folds of nothing, padding, updates by nothing) must have the right
ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.differential.engine import on_xla
from tests.support.empty_programs import CASES, FLOATS

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec, host_levels

TYPES = {"f32": (CASES, FLOATS), "bf16": (CASES,), "s32": (CASES,), "c64": (CASES,)}
UNORDERED = ("sort", "topk", "clamp", "select-and-scatter", "convert")


def _rows() -> list[Any]:
    return [
        pytest.param(element, *row, id=f"{name} of {element}")
        for element, tables in TYPES.items()
        for table in tables
        for name, row in table.items()
        if not (element == "c64" and name.startswith(UNORDERED))
    ]


def _module(element: str, parameters: tuple[str, ...], line: str, called: str) -> Module:
    body = "".join(
        f" {chr(97 + number)} = {shape} parameter({number})\n"
        for number, shape in enumerate(parameters)
    )
    text = f"HloModule m\n{called}ENTRY e {{\n{body} ROOT o = {line}\n}}"
    text = text.replace("T[", f"{element}[").replace("C[", "c64[")
    return ingot.parse_hlo(text)


def _leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in (value if isinstance(value, (tuple, list)) else [value])]


def _inputs(module: Module) -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    return [
        draw.integers(0, 3, shape.static_dims).astype(shape.dtype.numpy)
        for shape in (parameter.shape for parameter in module.entry.parameters)
    ]


@pytest.mark.parametrize(("element", "parameters", "line", "called"), _rows())
def test_as_the_evaluator(
    element: str, parameters: tuple[str, ...], line: str, called: str
) -> None:
    module = _module(element, parameters, line, called)
    inputs = _inputs(module)
    wanted = _leaves(evaluate(module, inputs))
    shapes = [shape for _, shape in module.result_shape.leaves()]
    for level in (None, host_levels()[-1]) if element == "f32" else (None,):
        given = _module(element, parameters, line, called)
        found = _leaves(ingot.compile(given, target=TargetSpec.host(level))(*inputs))
        for mine, other, shape in zip(found, wanted, shapes, strict=True):
            assert mine.shape == other.shape == shape.static_dims
            assert mine.dtype == other.dtype == shape.dtype.numpy
            np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in (*CASES, *FLOATS) if not name.startswith("topk")]
)
def test_the_evaluator_is_as_xla(name: str) -> None:
    """XLA's text has no `topk`; the front ends write it as a custom call."""
    module = _module("f32", *(CASES | FLOATS)[name])
    inputs = _inputs(module)
    for mine, other in zip(_leaves(evaluate(module, inputs)), on_xla(module, inputs), strict=True):
        np.testing.assert_array_equal(mine, other, strict=True)


_CALLED = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
less { x = f32[] parameter(0) y = f32[] parameter(1) ROOT l = pred[] compare(x, y), direction=LT }
"""
_ZERO = "z = f32[] constant(0)"
MANY_ROWS = {
    "sort": "ROOT r = f32[?n,4,?k] sort(p), dimensions={2}, to_apply=less",
    "sum": f"{_ZERO} ROOT r = f32[4] reduce(p, z), dimensions={{0,2}}, to_apply=add",
    "rows less their sums": f"{_ZERO} s = f32[?n,4] reduce(p, z), dimensions={{2}}, to_apply=add "
    "b = f32[?n,4,?k] broadcast(s), dimensions={0,1} ROOT r = f32[?n,4,?k] subtract(p, b)",
}


@pytest.mark.parametrize("name", MANY_ROWS)
def test_rows_without_elements_take_no_time(name: str) -> None:
    """A loop over 2^40 of them would not end."""
    body = f"p = f32[?n,4,?k] parameter(0) {MANY_ROWS[name]}"
    module = ingot.parse_hlo(f"HloModule m\n{_CALLED}ENTRY e {{ {body} }}")
    program = ingot.compile(module)
    found = program(np.zeros((1 << 40, 4, 0), np.float32))
    np.testing.assert_array_equal(found, np.zeros(4 if name == "sum" else (1 << 40, 4, 0)))
    some = np.arange(24, dtype=np.float32).reshape(2, 4, 3) % 5
    np.testing.assert_array_equal(program(some), evaluate(module, [some]))

# SPDX-License-Identifier: Apache-2.0
"""Kernels of many instructions are masked in every block, one body for all: as the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.dtype import dtype
from ingot.kernel.schedule.decide import LARGE_BODY

STEPS = ("add", "maximum", "subtract", "minimum")
SIZES = (0, 1, 15, 16, 33, 1003)
SLOW = pytest.mark.slow
CASES = [
    pytest.param(name, size, marks=() if name == "f32" or size == 33 else SLOW)
    for name in ("f32", "f64", "bf16", "s8", "u16", "s64")
    for size in SIZES
]


def _program(name: str, size: int) -> str:
    """Return a chain whose every number is small: exact in each type."""
    shape = f"{name}[{size}]"
    lines = [f"v0 = {shape} parameter(0)", f"w = {shape} parameter(1)", f"x = {shape} parameter(2)"]
    for number in range(LARGE_BODY + 20):
        other = "w" if number % 3 else "x"
        op = STEPS[number % 4]
        lines.append(f"v{number + 1} = {shape} {op}(v{number}, {other})")
    last = f"ROOT r = {shape} add(v{LARGE_BODY + 20}, v1)"
    return "HloModule m\nENTRY e {\n" + "\n".join([*lines, last]) + "\n}\n"


@pytest.mark.parametrize(("name", "size"), CASES)
def test_as_the_evaluator(name: str, size: int) -> None:
    module = ingot.parse_hlo(_program(name, size))
    numbers = np.random.default_rng(size)
    inputs = [numbers.integers(0, 4, size).astype(dtype(name).numpy) for _ in range(3)]
    np.testing.assert_array_equal(ingot.compile(module)(*inputs), evaluate(module, inputs))


def test_the_body_is_written_once() -> None:
    executable = ingot.compile(ingot.parse_hlo(_program("f32", 1003)))
    steps = (LARGE_BODY + 20) // 4
    assert steps <= executable.as_text("llvm").count("@llvm.maximum") < 2 * steps


def test_symbolic_size() -> None:
    module = ingot.parse_hlo(_program("f32", 7).replace("f32[7]", "f32[?n]"))
    executable = ingot.compile(module)
    for size in SIZES:
        inputs = [np.arange(size, dtype=np.float32) % 5 + n for n in range(3)]
        np.testing.assert_array_equal(executable(*inputs), evaluate(module, inputs))

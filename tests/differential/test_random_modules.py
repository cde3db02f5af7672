# SPDX-License-Identifier: Apache-2.0
"""Random modules with structured ops: native code as the evaluator, at every pipeline level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.random_modules import random_inputs, random_module, random_symbolic_module

import ingot
from ingot.client.compilation import default_context
from ingot.evaluator import evaluate
from ingot.hlo.dim import evaluate as size_at
from ingot.hlo.module import Module
from ingot.passes.fusion import legality
from ingot.support.diagnostics import ExecutionError

# How many rewrite rules may fire, instructions that a kernel may have.
LEVELS: tuple[tuple[int | None, int], ...] = (
    (None, legality.MAX_MEMBERS), (0, legality.MAX_MEMBERS), (None, 1), (0, 1),
)  # fmt: skip
LARGEST = 1 << 15
"""Elements of any array: the evaluator takes its time."""


@pytest.fixture
def compile_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    def compile_module(module: Module, level: int) -> Any:
        fuel, members = LEVELS[level]
        monkeypatch.setattr(legality, "MAX_MEMBERS", members)
        monkeypatch.setattr(legality, "MAX_LEAVES", 0)
        context = default_context()
        context.rewrite_fuel = fuel
        return ingot.compile(module, context=context)

    return compile_module


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _assert_close(got: Any, want: Any) -> None:
    for number, (mine, other) in enumerate(zip(_flat(got), _flat(want), strict=True)):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        if other.dtype.kind != "f":
            np.testing.assert_array_equal(mine, other, err_msg=f"output {number}")
            continue
        finite = np.abs(other[np.isfinite(other)])
        size = max(1.0, float(finite.max(initial=0)))
        np.testing.assert_allclose(
            mine, other, rtol=1e-3, atol=1e-3 * size, err_msg=f"output {number}"
        )


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow)
                                               for s in range(6, 120))])  # fmt: skip
def test_as_the_evaluator(seed: int, compile_at: Any) -> None:
    module, inputs = random_module(seed, steps=16, structured=True)
    _assert_close(compile_at(module, seed % 4)(*inputs), evaluate(module, inputs))


def _result(executable: Any, inputs: list[Any]) -> Any:
    """Return what the program gives; None if it refuses the sizes."""
    try:
        return executable(*inputs)
    except ExecutionError as refusal:
        if refusal.diagnostic.code == "INGOT0504":
            return None
        raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_symbolic_sizes(seed: int, compile_at: Any) -> None:
    module = random_symbolic_module(seed, steps=14, structured=True)
    executable = compile_at(module, seed % 4)
    sizes = {
        leaf.size
        for computation in module.computations.values()
        for instruction in computation.instructions
        for _, leaf in instruction.shape.leaves()
        if leaf.is_array
    }
    for number in (0, 1, 2, 3, 17, 64):
        if max(size_at(size, {"n": number}) for size in sizes) <= LARGEST:
            inputs = random_inputs(module, seed + number, {"n": number})
            found = _result(executable, inputs)
            # A slice may start at n-3: the program says so, and only of the smallest sizes.
            assert found is not None or number < 3
            if found is not None:
                _assert_close(found, evaluate(module, inputs))

"""Exact random programs: native code, evaluator and real XLA give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.__main__ import failures
from tests.fuzz.bounds import limit
from tests.fuzz.generator import exact_program

from ingot.evaluator import evaluate
from ingot.hlo.verifier import verify


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_exact(seed: int) -> None:
    """The evaluator's results are whole numbers that their type holds exactly."""
    module, inputs = exact_program(seed)
    verify(module)
    results = evaluate(module, inputs)
    for value, shape in zip(results, module.result_shape.elements, strict=True):
        wide = np.abs(np.asarray(value).astype(np.complex128))
        assert wide.max(initial=0) <= 2 * limit(shape.dtype)
        assert np.array_equal(np.asarray(value), np.round(np.asarray(value).astype(np.complex128)))


def test_some_programs() -> None:
    assert not failures(1_000_000, 1_000_030)


@pytest.mark.slow
def test_more_programs() -> None:
    assert not failures(0, 300)


@pytest.mark.slow
def test_real_xla() -> None:
    assert not failures(2_000_000, 2_000_040, with_xla=True)

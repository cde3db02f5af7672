"""Scatters that combine, update by update: sums by segment against the evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module

TYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "s8": np.int8,
    "s32": np.int32, "u64": np.uint64,
}  # fmt: skip


def _scatter(element: str, count: str, combiner: str, segments: int = 5) -> Module:
    return parse_hlo(f"""HloModule segments

combine {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {combiner}(a, b)
}}

ENTRY main {{
  x = {element}[{segments}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {element}[{count}] parameter(2)
  ROOT r = {element}[{segments}] scatter(x, i, u), update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=combine
}}
""")


def _inputs(element: str, count: int, low: int, high: int) -> list[np.ndarray]:
    random = np.random.default_rng(count)
    numbers = random.integers(0, 9, count)
    indices = random.integers(low, high, (count, 1)).astype(np.int32)
    return [np.arange(5).astype(TYPES[element]), indices, numbers.astype(TYPES[element])]


def _check(module: Module, inputs: list[np.ndarray]) -> None:
    found = np.asarray(ingot.compile(module)(*inputs))
    np.testing.assert_array_equal(found, np.asarray(evaluate(module, inputs)))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("high", [5, 8])
def test_sizes(count: int, high: int) -> None:
    """Up to 5 every index is inside; beyond some updates are dropped."""
    low = 0 if high == 5 else -2
    _check(_scatter("f32", str(count), "add"), _inputs("f32", count, low, high))


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("combiner", ["add", "maximum", "multiply", "subtract"])
def test_types_and_combiners(element: str, combiner: str) -> None:
    _check(_scatter(element, "77", combiner), _inputs(element, 77, -1, 6))


@pytest.mark.parametrize("combiner", ["or", "xor", "and"])
def test_predicates(combiner: str) -> None:
    random = np.random.default_rng(0)
    start, updates = random.random(5) < 0.5, random.random(90) < 0.1
    indices = random.integers(-1, 6, (90, 1)).astype(np.int32)
    _check(_scatter("pred", "90", combiner), [start, indices, updates])


def test_order_of_updates() -> None:
    """Sums of floats depend on their order; so do results of what does not commute."""
    random = np.random.default_rng(1)
    updates = (random.normal(size=500) * 10.0 ** random.integers(-6, 6, 500)).astype(np.float32)
    indices = random.integers(0, 2, (500, 1)).astype(np.int32)
    _check(_scatter("f32", "500", "add"), [np.zeros(5, np.float32), indices, updates])


def test_any_size_by_one_compilation() -> None:
    module = _scatter("s32", "?n", "add")
    executable = ingot.compile(module)
    for count in (0, 1, 40, 333):
        inputs = _inputs("s32", count, -1, 6)
        np.testing.assert_array_equal(executable(*inputs), evaluate(module, inputs))


def test_the_same_value_for_all() -> None:
    module = parse_hlo("""HloModule counts

combine {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

ENTRY main {
  i = s32[300,1] parameter(0)
  z = s32[] constant(0)
  o = s32[] constant(1)
  x = s32[7] broadcast(z), dimensions={}
  u = s32[300] broadcast(o), dimensions={}
  ROOT r = s32[7] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
}
""")
    indices = np.random.default_rng(2).integers(0, 7, (300, 1)).astype(np.int32)
    found = ingot.compile(module)(indices)
    np.testing.assert_array_equal(found, np.bincount(indices[:, 0], minlength=7))

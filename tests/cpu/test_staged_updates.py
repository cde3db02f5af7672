# SPDX-License-Identifier: Apache-2.0
"""Scatters that combine, update by update, elements and rows: sums by segment."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Module

pytestmark = pytest.mark.fast_share(4)

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


@pytest.mark.parametrize("count", [0, 1, 7, 8, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("high", [5, 8])
def test_sizes(count: int, high: int) -> None:
    """Up to 5 every index is inside; beyond some updates are dropped."""
    low = 0 if high == 5 else -2
    agrees(_scatter("f32", str(count), "add"), _inputs("f32", count, low, high))


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("combiner", ["add", "maximum", "multiply", "subtract"])
def test_types_and_combiners(element: str, combiner: str) -> None:
    agrees(_scatter(element, "77", combiner), _inputs(element, 77, -1, 6))


@pytest.mark.parametrize("combiner", ["or", "xor", "and"])
def test_predicates(combiner: str) -> None:
    random = np.random.default_rng(0)
    start, updates = random.random(5) < 0.5, random.random(90) < 0.1
    indices = random.integers(-1, 6, (90, 1)).astype(np.int32)
    agrees(_scatter("pred", "90", combiner), [start, indices, updates])


def test_order_of_updates() -> None:
    """Sums of floats depend on their order; so do results of what does not commute."""
    random = np.random.default_rng(1)
    updates = (random.normal(size=500) * 10.0 ** random.integers(-6, 6, 500)).astype(np.float32)
    indices = random.integers(0, 2, (500, 1)).astype(np.int32)
    agrees(_scatter("f32", "500", "add"), [np.zeros(5, np.float32), indices, updates])


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


def _rows(element: str, count: int, width: int, combiner: str = "add") -> Module:
    return parse_hlo(f"""HloModule rows

combine {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {combiner}(a, b)
}}

ENTRY main {{
  x = {element}[9,{width}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {element}[{count},{width}] parameter(2)
  ROOT r = {element}[9,{width}] scatter(x, i, u), update_window_dims={{1}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=combine
}}
""")


ORDERS = {
    "random": lambda r, n: r.integers(0, 9, n),
    "sorted": lambda r, n: np.sort(r.integers(0, 9, n)),
    "same": lambda r, n: np.full(n, 4),
    "some outside": lambda r, n: np.sort(r.integers(-2, 11, n)),
    "runs": lambda r, n: np.repeat(r.integers(0, 9, n), r.integers(1, 30, n))[:n],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [3, 16, 63, 65])
def test_rows(order: str, width: int) -> None:
    """Sums of floats depend on their order, so every row is summed in that of its updates."""
    random = np.random.default_rng(width)
    for count in (1, 31, 200):
        updates = random.normal(size=(count, width)) * 10.0 ** random.integers(-6, 6, (count, 1))
        indices = ORDERS[order](random, count).astype(np.int32)[:, None]
        start = random.normal(size=(9, width)).astype(np.float32)
        agrees(_rows("f32", count, width), [start, indices, updates.astype(np.float32)])


@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_elements(order: str) -> None:
    random = np.random.default_rng(3)
    updates = (random.normal(size=999) * 10.0 ** random.integers(-6, 6, 999)).astype(np.float32)
    indices = (ORDERS[order](random, 999) - 2).astype(np.int32)[:, None]
    agrees(_scatter("f32", "999", "add"), [np.ones(5, np.float32), indices, updates])


@pytest.mark.slow
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("combiner", ["add", "maximum", "subtract"])
def test_types_of_rows(element: str, combiner: str) -> None:
    random = np.random.default_rng(5)
    indices = np.sort(random.integers(-1, 10, (77, 1)), axis=0).astype(np.int32)
    start = random.integers(0, 9, (9, 7)).astype(TYPES[element])
    updates = random.integers(0, 9, (77, 7)).astype(TYPES[element])
    agrees(_rows(element, 77, 7, combiner), [start, indices, updates])


def test_rows_from_narrow_floats_that_round() -> None:
    """What is held is rounded at every update, as memory would round it."""
    random = np.random.default_rng(6)
    updates = random.normal(size=(200, 16)).astype(ml_dtypes.bfloat16)
    indices = np.sort(random.integers(0, 9, (200, 1)), axis=0).astype(np.int32)
    agrees(_rows("bf16", 200, 16), [np.zeros((9, 16), ml_dtypes.bfloat16), indices, updates])


def test_rows_of_computed_values_and_indices() -> None:
    """What an update needs besides its row is computed for it alone."""
    module = parse_hlo("""HloModule weighted

combine {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  i = s32[100] parameter(0)
  w = f32[100] parameter(1)
  u = f32[100,12] parameter(2)
  zero = f32[] constant(0)
  start = f32[50,12] broadcast(zero), dimensions={}
  two = s32[] constant(2)
  twos = s32[100] broadcast(two), dimensions={}
  twice = s32[100] multiply(i, twos)
  places = s32[100,1] reshape(twice)
  weights = f32[100,12] broadcast(w), dimensions={0}
  converted = f32[100] convert(i)
  shift = f32[100,12] broadcast(converted), dimensions={0}
  weighted = f32[100,12] multiply(u, weights)
  shifted = f32[100,12] subtract(weighted, shift)
  ROOT r = f32[50,12] scatter(start, places, shifted), update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    to_apply=combine
}
""")
    random = np.random.default_rng(7)
    indices = np.sort(random.integers(0, 30, 100)).astype(np.int32)
    weights, updates = random.normal(size=100), random.normal(size=(100, 12))
    inputs = [indices, weights.astype(np.float32), updates.astype(np.float32)]
    found = np.asarray(ingot.compile(module)(*inputs))
    np.testing.assert_allclose(found, evaluate(module, inputs), rtol=1e-5, atol=1e-5)


def test_computed_indices_are_staged() -> None:
    """Places and values of several ops each: computed in lanes, fetched one by one."""
    module = parse_hlo("""HloModule computed

combine {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  i = s32[300] parameter(0)
  u = f32[300] parameter(1)
  zero = s32[] constant(0)
  zeros = s32[300] broadcast(zero), dimensions={}
  nine = s32[] constant(9)
  nines = s32[300] broadcast(nine), dimensions={}
  below = pred[300] compare(i, zeros), direction=LT
  above = s32[300] add(i, nines)
  wrapped = s32[300] select(below, above, i)
  places = s32[300,1] reshape(wrapped)
  f = f32[] constant(0)
  start = f32[9] broadcast(f), dimensions={}
  roots = f32[300] sqrt(u)
  values = f32[300] subtract(roots, u)
  ROOT r = f32[9] scatter(start, places, values), update_window_dims={},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
    to_apply=combine
}
""")
    random = np.random.default_rng(8)
    for order in ORDERS:
        indices = (ORDERS[order](random, 300) - 3).astype(np.int32)
        inputs = [indices, random.random(300).astype(np.float32)]
        found = np.asarray(ingot.compile(module)(*inputs))
        np.testing.assert_allclose(found, evaluate(module, inputs), rtol=1e-5, atol=1e-5)

# SPDX-License-Identifier: Apache-2.0
"""Selections on the CPU against the evaluator: ties, NaN, signed zeros, any size and type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module

pytestmark = pytest.mark.fast_share(4)

TYPES = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64,
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32,
    "u32": np.uint32, "s64": np.int64,
}  # fmt: skip
SIZES = (
    (1, 1), (2, 1), (16, 16), (17, 1), (63, 5), (64, 64), (65, 3), (129, 128), (200, 7),
    (1000, 100), (1024, 16), (1025, 1), (4096, 10),
)  # fmt: skip


def _topk(shape: str, k: int, *, largest: bool = True) -> Module:
    b = Builder("main")
    return Module.of("selection", b.build(b.topk(b.parameter(0, shape), k=k, largest=largest)))


def _check(module: Module, values: np.ndarray) -> None:
    agrees(module, [values], exact="bits")


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("length", "k"), SIZES)
def test_sizes(length: int, k: int, largest: bool) -> None:
    values = np.random.default_rng(length).normal(size=(3, length)).astype(np.float32)
    _check(_topk(f"f32[3,{length}]", k, largest=largest), values)


@pytest.mark.parametrize("name", TYPES)
def test_types_and_ties(name: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 100, (4, 500))
    _check(_topk(f"{name}[4,500]", 33), numbers.astype(TYPES[name]))
    _check(_topk(f"{name}[4,500]", 33, largest=False), numbers.astype(TYPES[name]))
    _check(_topk(f"{name}[4,500]", 3), numbers.astype(TYPES[name]))


@pytest.mark.parametrize("name", ["s32", "u32", "s8"])
@pytest.mark.parametrize("largest", [True, False])
def test_extreme_integers(name: str, largest: bool) -> None:
    limits = np.iinfo(TYPES[name])
    choices = np.array([limits.min, limits.max, 0, 1], TYPES[name])
    values = np.random.default_rng(1).choice(choices, (2, 777))
    for given in (values, np.full_like(values, limits.max), np.full_like(values, limits.min)):
        _check(_topk(f"{name}[2,777]", 90, largest=largest), given)
        _check(_topk(f"{name}[2,777]", 9, largest=largest), given)


@pytest.mark.parametrize("name", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("largest", [True, False])
def test_special_floats(name: str, largest: bool) -> None:
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1.0], np.float32)
    with np.errstate(over="ignore"):
        values = np.random.default_rng(2).choice(special, (3, 300)).astype(TYPES[name])
    _check(_topk(f"{name}[3,300]", 200, largest=largest), values)
    _check(_topk(f"{name}[3,300]", 50, largest=largest), values)


def test_orders_that_are_hard() -> None:
    """Every element beats those before; or none does; or all are equal."""
    rising = np.arange(3000, dtype=np.float32)
    for values in (rising, rising[::-1].copy(), np.zeros_like(rising)):
        _check(_topk("f32[3000]", 70), values)


@pytest.mark.parametrize("length", [131_072, 200_001, 131_073 + 65_536])
def test_long_rows_are_cut(length: int) -> None:
    values = np.random.default_rng(3).integers(0, 5000, length).astype(np.int32)
    _check(_topk(f"s32[2,{length}]", 300), np.stack([values, np.sort(values)]))


def test_any_size_by_one_compilation() -> None:
    module = _topk("f32[?n,?m]", 5)
    executable = ingot.compile(module)
    for rows, length in ((0, 9), (1, 5), (3, 64), (40, 1001)):
        values = np.random.default_rng(rows).normal(size=(rows, length)).astype(np.float32)
        order = np.argsort(-values, axis=1, kind="stable")[:, :5]
        found = executable(values)
        np.testing.assert_array_equal(found[0], np.take_along_axis(values, order, 1))
        np.testing.assert_array_equal(found[1], order)


def test_nothing_is_wanted() -> None:
    values = np.ones((2, 3), np.float32)
    found = ingot.compile(_topk("f32[2,3]", 0))(values)
    assert [item.shape for item in found] == [(2, 0), (2, 0)]


def test_operand_is_computed_and_results_are_used() -> None:
    b = Builder("main")
    x = b.parameter(0, "f32[4,100]")
    found = b.topk(b.multiply(x, x), k=6, largest=True)
    root = b.tuple(b.negate(b.element_of(found, 0)), b.element_of(found, 1))
    module = Module.of("around", b.build(root))
    _check(module, np.random.default_rng(4).normal(size=(4, 100)).astype(np.float32))

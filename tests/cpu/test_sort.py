"""Sorts on the CPU: stable, by any comparator, along any dimension, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape

SIZES = (0, 1, 2, 7, 8, 9, 16, 17, 100, 1000)


def _less(elements: tuple[str, ...], kind: str = "", direction: str = "LT") -> Computation:
    """Compare the first operand."""
    b = Builder("comes_first")
    shapes = [Shape.array(element, ()) for element in elements for _ in range(2)]
    left, right, *_ = (b.parameter(n, shape) for n, shape in enumerate(shapes))
    return b.build(b.compare(left, right, direction=direction, type=kind))


def _sort(shapes: tuple[str, ...], dimension: int, kind: str = "") -> Module:
    build = Builder("main")
    operands = [build.parameter(n, shape) for n, shape in enumerate(shapes)]
    elements = tuple(operand.shape.dtype.name for operand in operands)
    root = build.sort(
        *operands, dimensions=(dimension,), is_stable=True, to_apply=_less(elements, kind)
    )
    return Module.of("sorted", build.build(root))


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: int) -> None:
    values = np.random.default_rng(size).normal(size=size).astype(np.float32)
    found = ingot.compile(_sort((f"f32[{size}]",), 0))(values)
    np.testing.assert_array_equal(found, np.sort(values))


def test_any_size_by_one_compilation() -> None:
    executable = ingot.compile(_sort(("s32[?n,?m]", "f32[?n,?m]"), 1))
    for rows, columns in ((1, 1), (3, 40), (65, 9), (200, 17)):
        keys = np.random.default_rng(rows).integers(0, 9, (rows, columns)).astype(np.int32)
        values = np.arange(keys.size, dtype=np.float32).reshape(keys.shape)
        order = np.argsort(keys, axis=1, kind="stable")
        found = executable(keys, values)
        np.testing.assert_array_equal(found[0], np.take_along_axis(keys, order, 1))
        np.testing.assert_array_equal(found[1], np.take_along_axis(values, order, 1))


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_dimensions(dimension: int) -> None:
    values = np.random.default_rng(0).integers(-50, 50, (5, 33, 6)).astype(np.int64)
    found = ingot.compile(_sort(("s64[5,33,6]",), dimension))(values)
    np.testing.assert_array_equal(found, np.sort(values, axis=dimension))


@pytest.mark.parametrize("element", ["f64", "bf16", "f16", "u8", "s16", "pred"])
def test_types(element: str) -> None:
    shape = Shape.array(element, (300,))
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2 if element == "pred" else 100, 300).astype(shape.dtype.numpy)
    found = ingot.compile(_sort((f"{element}[300]",), 0))(values)
    np.testing.assert_array_equal(found, np.sort(values))


def test_total_order_of_special_values() -> None:
    values = np.array([np.nan, 1, -np.inf, 0.0, -0.0, np.inf, -np.nan, -1], np.float32)
    found = ingot.compile(_sort(("f32[8]",), 0, "TOTALORDER"))(values)
    expected = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_what_follows_is_a_kernel_of_its_own() -> None:
    build = Builder("main")
    x = build.parameter(0, "f32[4,50]")
    y = build.negate(x)
    ordered = build.sort(y, dimensions=(1,), to_apply=_less(("f32",)))
    root = build.add(ordered, ordered)
    module = Module.of("sorted", build.build(root))
    values = np.random.default_rng(2).normal(size=(4, 50)).astype(np.float32)
    np.testing.assert_array_equal(ingot.compile(module)(values), evaluate(module, [values]))

# SPDX-License-Identifier: Apache-2.0
"""Sorts on the CPU: stable, by any comparator, along any dimension, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.strategies import library_parts

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.kernel import expr as ex
from ingot.kernel.sort.keys import one_zero_one_nan, shared_keys, total_order
from ingot.kernel.sort.sort import PART

pytestmark = pytest.mark.fast_share(4)

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


FAST = ("f32", "u32")
KEYED = (
    *FAST,
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("pred", "f64", "bf16", "f16", "s8", "u8", "s16", "u16", "s32", "s64", "u64")
    ),
)


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("element", KEYED)
def test_one_key_of_any_type_takes_everything_along(element: str, direction: str) -> None:
    """Sorts by one key move keys and positions: extremes, ties, two payloads, along dimension 1."""
    elements = (element, "u8", "f64")
    build = Builder("main")
    operands = [build.parameter(n, f"{name}[3,101,2]") for n, name in enumerate(elements)]
    key = Shape.array(element, ()).dtype
    kind = "TOTALORDER" if key.is_float else ""
    order = _less(elements, kind, direction)
    root = build.sort(*operands, dimensions=(1,), is_stable=True, to_apply=order)
    module = Module.of("sorted", build.build(root))
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 256, (3, 101, 2, np.dtype(key.numpy).itemsize)).astype(np.uint8)
    bits[:, ::3] = rng.choice([0, 127, 128, 255], bits[:, ::3].shape)
    bits = bits % 2 if element == "pred" else bits
    keys = bits.reshape(3, 101, -1).view(key.numpy)
    keys[:, 50:] = keys[:, 1:52]
    payloads = (rng.integers(0, 9, keys.shape).astype(np.uint8), rng.normal(size=keys.shape))
    executable = ingot.compile(module)
    assert len(library_parts(executable)) == 2
    found, wanted = executable(keys, *payloads), evaluate(module, [keys, *payloads])
    for got, expected in zip(found, wanted, strict=True):
        got, expected = np.ascontiguousarray(got), np.ascontiguousarray(expected)
        np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))


def test_sizes_share_the_code() -> None:
    parts: set[str] = set()
    for size in (*SIZES, 4097):
        executable = ingot.compile(_sort((f"s32[2,{size}]",), 1))
        parts.update(library_parts(executable))
        values = np.random.default_rng(size).integers(-9, 9, (2, size)).astype(np.int32)
        np.testing.assert_array_equal(executable(values), np.sort(values, axis=1))
    assert len(parts) == 2


def _by_two_keys(*payloads: str) -> Computation:
    """Compare first operands (s32), of equal ones the second (s32), greater ones first."""
    b = Builder("comes_first")
    elements = ("s32", "s32", *payloads)
    shapes = [Shape.array(element, ()) for element in elements for _ in range(2)]
    a, c, d, e, *_ = (b.parameter(n, shape) for n, shape in enumerate(shapes))
    ties = b.and_(b.compare(a, c, direction="EQ"), b.compare(d, e, direction="GT"))
    return b.build(b.or_(b.compare(a, c, direction="LT"), ties))


@pytest.mark.parametrize(
    "payloads", [(), ("s32",), ("u8", "f64"), ("pred",), ("u8", "u8", "bf16"), ("c128", "s16")]
)
def test_orders_of_several_keys_share_code_among_sizes(payloads: tuple[str, ...]) -> None:
    """Elements of 8, 12, 24, ... bytes in scratch."""
    parts: set[str] = set()
    rng = np.random.default_rng(len(payloads))
    for size in (0, 1, 7, 8, 9, 31, 500, 2 * PART + 3):
        build = Builder("main")
        shapes = [Shape.array(each, (2, size)) for each in ("s32", "s32", *payloads)]
        operands = [build.parameter(n, shape) for n, shape in enumerate(shapes)]
        order = _by_two_keys(*payloads)
        root = build.sort(*operands, dimensions=(1,), is_stable=True, to_apply=order)
        executable = ingot.compile(Module.of("sorted", build.build(root)))
        parts.update(library_parts(executable))
        most = (2 if shape.dtype.name == "pred" else 99 for shape in shapes)
        given = [rng.integers(0, each, (2, size)) for each in most]
        values = [each.astype(s.dtype.numpy) for each, s in zip(given, shapes, strict=True)]
        indices = np.lexsort((-values[1], values[0]), axis=1)
        for found, value in zip(executable(*values), values, strict=True):
            np.testing.assert_array_equal(found, np.take_along_axis(value, indices, 1))
    assert len(parts) == 2, "one for whole rows, one for parts of rows"


ROW = (1, 5, 64, 65, 127, 129, 1000, 2 * PART + 77)


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_signed_zeros_and_nans_keep_their_order_in_sorts_of_jax(
    element: str, direction: str
) -> None:
    """Keys that take zeros for one number and NaNs for one: elements come out in their order."""
    dtype = Shape.array(element, ()).dtype
    whole = np.int32 if element == "f32" else np.int64
    key = total_order(one_zero_one_nan(ex.argument(0, dtype)))
    assert shared_keys(key, dtype) == (0, int(np.asarray(np.nan, dtype.numpy).view(whole)))
    for length in ROW:
        values = np.random.default_rng(length).normal(size=length).astype(dtype.numpy)
        values[::5], values[1::7], values[2::11], values[3::13] = 0, -0.0, np.nan, -np.nan
        module = _jax_sort(element, length, direction)
        found = ingot.compile(module)(values)
        keys = np.where(np.isnan(values), np.inf, values)
        nan = np.isnan(values)
        order = np.lexsort((np.arange(length), keys if direction == "LT" else -keys, nan))
        order = order if direction == "LT" else np.roll(order, int(nan.sum()))
        np.testing.assert_array_equal(found.view(whole), values[order].view(whole))


def _jax_sort(element: str, length: int, direction: str) -> Module:
    """Return a sort by a comparator as JAX writes it."""
    b = Builder("comes_first")
    zero, nan = (b.constant(value, element) for value in (0.0, np.nan))
    sides = [b.parameter(number, f"{element}[]") for number in (0, 1)]
    one = [b.select(b.compare(x, zero, direction="EQ"), zero, x) for x in sides]
    keys = [
        b.select(b.compare(x, x, direction="NE"), nan, y) for x, y in zip(sides, one, strict=True)
    ]
    order = b.build(b.compare(*keys, direction=direction, type="TOTALORDER"))
    build = Builder("main")
    operand = build.parameter(0, f"{element}[{length}]")
    root = build.sort(operand, dimensions=(0,), is_stable=True, to_apply=order)
    return Module.of("sorted", build.build(root))


@pytest.mark.parametrize("element", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "bf16", "f64"])
def test_keys_alone(element: str) -> None:
    """Elements of every type come back from their keys, bit for bit, along any dimension."""
    dtype = Shape.array(element, ()).dtype
    kind = "TOTALORDER" if dtype.is_float else ""
    for shape in ((131,), (7, 200), (33, 3), (2, 70, 5)):
        dimension = len(shape) // 2
        text = f"{element}[{','.join(map(str, shape))}]"
        module = _sort((text,), dimension, kind)
        size = np.dtype(dtype.numpy).itemsize
        bits = np.random.default_rng(len(shape)).integers(0, 256, (*shape, size)).astype(np.uint8)
        values = bits.view(dtype.numpy)[..., 0]
        found, wanted = ingot.compile(module)(values), evaluate(module, [values])
        found, wanted = np.ascontiguousarray(found), np.ascontiguousarray(wanted)
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))

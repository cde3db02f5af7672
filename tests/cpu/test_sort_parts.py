# SPDX-License-Identifier: Apache-2.0
"""Long rows are sorted in parts, by buckets or by merging: the same bits for any threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.kernel import expr as ex
from ingot.kernel.ir import Buffer, SortKernel
from ingot.kernel.sort.sort import LEVELS, MAX_PARTS, PART, schedule_sort
from ingot.runtime.native import num_threads, set_num_threads

THREADS = (1, 2, 3)
LENGTHS = (2 * PART - 1, 2 * PART, 3 * PART + 1, 5 * PART + 77)


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = num_threads()
    yield
    set_num_threads(before)


def _pairs(b: Builder, elements: tuple[str, ...]) -> list[list[Instruction]]:
    return [[b.parameter(2 * n + m, f"{e}[]") for m in (0, 1)] for n, e in enumerate(elements)]


def _by_first(elements: tuple[str, ...], direction: str = "LT") -> Computation:
    b = Builder("comes_first")
    return b.build(b.compare(*_pairs(b, elements)[0], direction=direction))


def _by_two(elements: tuple[str, ...]) -> Computation:
    """Compare first operands, of equal ones the second, greater ones first."""
    b = Builder("comes_first")
    first, second, *_ = _pairs(b, elements)
    ties = b.and_(b.compare(*first, direction="EQ"), b.compare(*second, direction="GT"))
    return b.build(b.or_(b.compare(*first, direction="LT"), ties))


def _module(shapes: tuple[str, ...], dimension: int, order: Computation) -> Module:
    build = Builder("main")
    operands = [build.parameter(n, shape) for n, shape in enumerate(shapes)]
    root = build.sort(*operands, dimensions=(dimension,), is_stable=True, to_apply=order)
    return Module.of("sorted", build.build(root))


def _on_each(module: Module, *values: np.ndarray) -> list[np.ndarray]:
    """Return the results, which must be the same bits for every number of threads."""
    executable = ingot.compile(module)
    found: list[list[np.ndarray]] = []
    for threads in THREADS:
        set_num_threads(threads)
        results = executable(*values)
        found.append(list(results) if isinstance(results, tuple) else [results])
    for other in found[1:]:
        for left, right in zip(found[0], other, strict=True):
            assert left.tobytes() == right.tobytes()
    return found[0]


@pytest.mark.parametrize("length", LENGTHS)
def test_keys_carry_their_positions(length: int) -> None:
    rng = np.random.default_rng(length)
    keys = rng.integers(-40, 40, length).astype(np.int32)
    places = np.arange(length, dtype=np.int32)
    module = _module((f"s32[{length}]", f"s32[{length}]"), 0, _by_first(("s32", "s32")))
    found = _on_each(module, keys, places)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], order)


@pytest.mark.parametrize("shape", [(3, 2 * PART + 5), (2 * PART + 5, 2), (2, 3 * PART, 1)])
def test_few_rows_along_any_dimension(shape: tuple[int, ...]) -> None:
    dimension = int(np.argmax(shape))
    values = np.random.default_rng(0).integers(-(1 << 40), 1 << 40, shape)
    dims = ",".join(map(str, shape))
    (found,) = _on_each(_module((f"s64[{dims}]",), dimension, _by_first(("s64",))), values)
    np.testing.assert_array_equal(found, np.sort(values, axis=dimension))


PATTERNS = {
    "sorted": lambda n: np.arange(n),
    "reversed": lambda n: np.arange(n)[::-1],
    "equal": lambda n: np.zeros(n, np.int64),
    "saw": lambda n: np.arange(n) % 1000,
    "last is least": lambda n: np.roll(np.arange(n), -1),
    "halves change places": lambda n: np.roll(np.arange(n), n // 2),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_runs_that_are_used_up_early(pattern: str) -> None:
    length = 4 * PART + 3
    keys = PATTERNS[pattern](length).astype(np.int32)
    places = np.arange(length, dtype=np.int32)
    module = _module((f"s32[{length}]", f"s32[{length}]"), 0, _by_first(("s32", "s32")))
    found = _on_each(module, keys, places)
    np.testing.assert_array_equal(found[1], np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("element", ["s32", "u32", "s64", "u8"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_keys_alone(pattern: str, element: str) -> None:
    """Buckets that are empty, hold everything, or one value, in both directions."""
    length = 5 * PART + 77
    keys = (PATTERNS[pattern](length) % 251).astype(dtype(element).numpy)
    for direction in ("LT", "GT"):
        order = _by_first((element,), direction)
        (found,) = _on_each(_module((f"{element}[{length}]",), 0, order), keys)
        expected = np.sort(keys)
        np.testing.assert_array_equal(found, expected if direction == "LT" else expected[::-1])


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("rows", [1, 3])
def test_floats_in_total_order(element: str, rows: int) -> None:
    """NaNs of both signs, zeros, infinities and denormals, bit for bit, as bits compare."""
    length, item = 3 * PART + 1, np.dtype(dtype(element).numpy)
    bits = np.random.default_rng(rows).integers(0, 256, (rows, length, item.itemsize))
    values = bits.astype(np.uint8).view(item)[..., 0]
    for at, value in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan)):
        values[:, at::23] = value
    b = Builder("comes_first")
    left, right = (b.parameter(n, f"{element}[]") for n in (0, 1))
    order = b.build(b.compare(left, right, direction="LT", type="TOTALORDER"))
    (found,) = _on_each(_module((f"{element}[{rows},{length}]",), 1, order), values)
    whole = np.dtype(f"i{item.itemsize}")
    keys = values.view(whole)
    mirrored = keys ^ ((keys >> (8 * item.itemsize - 1)) & np.iinfo(whole).max)
    expected = np.take_along_axis(keys, np.argsort(mirrored, axis=1, kind="stable"), 1)
    np.testing.assert_array_equal(np.ascontiguousarray(found).view(whole), expected)


@pytest.mark.parametrize("length", LENGTHS)
def test_orders_of_several_keys(length: int) -> None:
    rng = np.random.default_rng(length)
    first = rng.integers(0, 50, length).astype(np.uint8)
    second = rng.integers(0, 50, length).astype(np.float64)
    places = np.arange(length, dtype=np.int32)
    elements = ("u8", "f64", "s32")
    shapes = tuple(f"{element}[{length}]" for element in elements)
    found = _on_each(_module(shapes, 0, _by_two(elements)), first, second, places)
    expected = np.lexsort((places, -second, first))
    np.testing.assert_array_equal(found[2], expected)
    np.testing.assert_array_equal(found[0], first[expected])


def test_a_comparator_that_is_no_order_gives_a_permutation() -> None:
    """Floats with NaN compared as numbers: no split of a merge may lose or double an element."""
    length = 7 * PART + 9
    rng = np.random.default_rng(1)
    values = rng.standard_normal(length).astype(np.float32)
    values[rng.integers(0, length, length // 3)] = np.nan
    places = np.arange(length, dtype=np.int32)
    shapes = (f"f32[{length}]", f"s32[{length}]")
    found = _on_each(_module(shapes, 0, _by_first(("f32", "s32"))), values, places)
    np.testing.assert_array_equal(np.sort(found[1]), places)
    np.testing.assert_array_equal(found[0], values[found[1]])


def test_any_length_by_one_compilation() -> None:
    for order in (_by_first(("s32", "f32")), _by_two(("s32", "f32"))):
        executable = ingot.compile(_module(("s32[?n,?m]", "f32[?n,?m]"), 1, order))
        for shape in (
            (0, 5),
            (1, 0),
            (1, 1),
            (70, 9),
            (1, 2 * PART + 1),
            (5, 3 * PART),
            (40, PART),
        ):
            rng = np.random.default_rng(shape[1])
            keys = rng.integers(-99, 99, shape).astype(np.int32)
            values = np.arange(keys.size)[::-1].astype(np.float32).reshape(shape)
            places = np.argsort(keys, axis=1, kind="stable")
            found = executable(keys, values)
            np.testing.assert_array_equal(found[0], np.take_along_axis(keys, places, 1))
            np.testing.assert_array_equal(found[1], np.take_along_axis(values, places, 1))


def test_parts_cover_every_row() -> None:
    buffers = (Buffer(S32, 1, False),) * 2
    comparator = ex.argument(0, PRED)
    for rows in (1, 2, 5, 8, 9, 16, 1000):
        for length in (0, 1, PART, *LENGTHS, 15 * PART + 1, 16 * PART, 1 << 20, (1 << 24) + 1):
            kernel = SortKernel(rows, length, 1, comparator, buffers, (0,))
            made = schedule_sort(kernel)
            assert 1 <= made.parts <= MAX_PARTS
            assert made.parts * made.part >= length
            assert made.parts == 1 or (made.parts - 1) * made.part < length
            assert (made.whole_chunks == 0) == (made.parts > 1)
            assert made.part_chunks == (rows * made.parts if made.parts > 1 else 0)
            levels = [made.merge_chunks(level) for level in range(LEVELS)]
            assert sum(map(bool, levels)) == (made.parts - 1).bit_length()

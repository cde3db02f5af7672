# SPDX-License-Identifier: Apache-2.0
"""Cases of gather, scatter, dynamic slices, sort, top-k: random dimension numbers, comparators."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.differential.case import (
    FLOATS,
    Array,
    Build,
    Case,
    seed_of,
    small_integers,
    special_values,
    values,
)
from tests.differential.shaping_cases import SUM, build_one

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import Kind, dtype
from ingot.hlo.instruction import Instruction

GATHERS = 220
SCATTERS = 220
_TYPES = ("f32", "s32", "bf16", "u8", "pred", "f64", "s64", "f16", "s8")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Random dimension numbers of a gather or scatter and the sizes that go with them."""

    operand: tuple[int, ...]
    slice_sizes: tuple[int, ...]
    indices: tuple[int, ...]
    windowed: tuple[int, ...]
    window_dims: tuple[int, ...]
    inserted: tuple[int, ...]
    index_map: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]
    vector_dim: int


def random_numbers(choose: random.Random) -> Numbers:
    """Return dimension numbers of every kind: batching, collapsed, permuted, implicit vectors."""
    operand = tuple(choose.choice((1, 2, 3, 4, 5)) for _ in range(choose.randint(1, 4)))
    kinds = [choose.choice("wwwcccb" if len(operand) > 1 else "wc") for _ in operand]
    batching = tuple(i for i, kind in enumerate(kinds) if kind == "b")
    inserted = tuple(i for i, kind in enumerate(kinds) if kind == "c")
    window = [i for i, kind in enumerate(kinds) if kind == "w"]
    sizes = tuple(
        1 if kind != "w" else choose.randint(1, size)
        for kind, size in zip(kinds, operand, strict=True)
    )
    free = [i for i in range(len(operand)) if i not in batching]
    index_map = tuple(choose.sample(free, choose.randint(min(1, len(free)), len(free))))
    counts: list[tuple[int, int | None]] = [(operand[i], i) for i in batching]
    counts += [(choose.choice((0, 1, 2, 3, 7)), None) for _ in range(choose.randint(0, 2))]
    choose.shuffle(counts)
    batch = [size for size, _ in counts]
    indices = list(batch)
    vector = choose.randint(0, len(batch))
    if len(index_map) == 1 and choose.random() < 0.5:
        vector = len(batch)
    else:
        indices.insert(vector, len(index_map))
    places = [i + (i >= vector and len(indices) > len(batch)) for i in range(len(batch))]
    origin = {source: places[i] for i, (_, source) in enumerate(counts) if source is not None}
    rank = len(batch) + len(window)
    window_dims = tuple(sorted(choose.sample(range(rank), len(window))))
    rest, kept = iter(batch), iter(sizes[i] for i in window)
    windowed = tuple(next(kept) if i in window_dims else next(rest) for i in range(rank))
    return Numbers(
        operand, sizes, tuple(indices), windowed, window_dims, inserted, index_map,
        batching, tuple(origin[i] for i in batching), vector,
    )  # fmt: skip


def _indices(numbers: Numbers, element: str, generator: np.random.Generator) -> Array:
    low = 0 if dtype(element).kind is Kind.UNSIGNED else -2
    return generator.integers(low, 7, numbers.indices).astype(dtype(element).numpy)


def gathers() -> Iterator[Case]:
    """Gathers with indices in and out of bounds."""
    for number in range(GATHERS):
        choose = random.Random(number)
        element, index = choose.choice(_TYPES), choose.choice(("s32", "s32", "s64", "u8", "u32"))
        given = random_numbers(choose)
        name = f"gather #{number} {element} {list(given.operand)} at {index}{list(given.indices)}"
        generator = seed_of(name)
        inputs = values(element, given.operand, generator), _indices(given, index, generator)
        build = build_one(
            "gather",
            offset_dims=given.window_dims,
            collapsed_slice_dims=given.inserted,
            start_index_map=given.index_map,
            operand_batching_dims=given.operand_batching,
            start_indices_batching_dims=given.indices_batching,
            index_vector_dim=given.vector_dim,
            slice_sizes=given.slice_sizes,
        )
        yield Case(name, inputs, build)


def scatters() -> Iterator[Case]:
    """Scatters that add, replace, multiply, take the maximum; of one operand and of two."""
    for number in range(SCATTERS):
        choose = random.Random(1000 + number)
        element, index = choose.choice(_TYPES), choose.choice(("s32", "s32", "s64", "u8"))
        given = random_numbers(choose)
        combiner = choose.choice(("add", "maximum", "minimum", "multiply"))
        if element == "pred":
            combiner = choose.choice(("and", "or"))
        pair = number % 8 == 0
        name = f"scatter #{number} {element} {list(given.operand)} {combiner} {'pair' * pair}"
        generator = seed_of(name)
        count = 2 if pair else 1
        operands = [small_integers(element, given.operand, generator) for _ in range(count)]
        updates = [small_integers(element, given.windowed, generator) for _ in range(count)]
        inputs = (*operands, _indices(given, index, generator), *updates)
        yield Case(name, inputs, _scatter(given, combiner, element, pair), SUM)


def _scatter(given: Numbers, combiner: str, element: str, pair: bool) -> Build:
    def build(b: Builder, operands: Sequence[Instruction]) -> Instruction:
        called = _pair(combiner, element) if pair else scalar_computation(combiner, element)
        return b.scatter(
            *operands,
            update_window_dims=given.window_dims,
            inserted_window_dims=given.inserted,
            scatter_dims_to_operand_dims=given.index_map,
            input_batching_dims=given.operand_batching,
            scatter_indices_batching_dims=given.indices_batching,
            index_vector_dim=given.vector_dim,
            to_apply=called,
        )

    return build


def _pair(combiner: str, element: str) -> Computation:
    inner = Builder("pair")
    shape = f"{element}[]"
    x, y, u, v = (inner.parameter(number, shape) for number in range(4))
    return inner.build(inner.tuple(inner.emit(combiner, x, u), inner.emit(combiner, y, v)))


def replacing() -> Iterator[Case]:
    """Scatters whose combiner returns the update (last one wins where indices are unique)."""
    for element in _TYPES:
        for rows, columns in ((5, 3), (64, 1), (1, 1), (33, 17)):
            name = f"scatter replace {element}[{rows},{columns}]"
            generator = seed_of(name)
            order = generator.permutation(rows)[: rows // 2 + 1].astype(np.int32)
            inputs = (
                values(element, (rows, columns), generator), order,
                values(element, (len(order), columns), generator),
            )  # fmt: skip

            def build(b: Builder, operands: Sequence[Instruction], e: str = element) -> Instruction:
                inner = Builder("second")
                inner.parameter(0, f"{e}[]")
                called = inner.build(inner.parameter(1, f"{e}[]"))
                return b.scatter(
                    *operands, update_window_dims=(1,), inserted_window_dims=(0,),
                    scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=called,
                    unique_indices=True,
                )  # fmt: skip

            yield Case(name, inputs, build)


def dynamic_slices() -> Iterator[Case]:
    """Dynamic slices and updates: indices of several types, far out of bounds."""
    boxes = (((9,), (4,)), ((9,), (9,)), ((9,), (0,)), ((5, 7), (2, 7)), ((5, 7), (1, 1)),
             ((2, 3, 33), (1, 2, 20)), ((1,), (1,)), ((0, 3), (0, 2)))  # fmt: skip
    for element in _TYPES:
        for dims, sizes in boxes:
            for index in ("s32", "s64", "u8", "s8"):
                name = f"dynamic-slice {element}{list(dims)} {list(sizes)} at {index}"
                generator = seed_of(name)
                low = 0 if index == "u8" else -100
                starts = [
                    generator.choice([low, 0, 1, 2, 100], ()).astype(dtype(index).numpy)
                    for _ in dims
                ]
                data = values(element, dims, generator)
                build = build_one("dynamic-slice", dynamic_slice_sizes=sizes)
                yield Case(name, (data, *starts), build)
                update = values(element, sizes, generator)
                name = name.replace("dynamic-slice", "dynamic-update-slice")
                build = build_one("dynamic-update-slice")
                yield Case(name, (data, update, *starts), build)


_SORTED = ("f32", "s32", "u8", "bf16", "s64", "f64", "u32", "s8", "f16", "pred", "u64", "s16")


def sorts() -> Iterator[Case]:
    """Sorts of one and more operands along every dimension, by several comparators."""
    shapes: tuple[tuple[tuple[int, ...], int], ...] = (
        ((1,), 0), ((0,), 0), ((2,), 0), ((17,), 0), ((1237,), 0), ((5, 9), 1), ((5, 9), 0),
        ((3, 4, 7), 1), ((2, 0), 0), ((64, 3), 0), ((3, 128), 1),
    )  # fmt: skip
    for element in _SORTED:
        for dims, place in shapes:
            for direction in ("LT", "GT"):
                name = f"sort {element}{list(dims)} {place} {direction}"
                data = values(element, dims, seed_of(name))
                yield Case(name, (data,), _sort(element, place, direction, 1))
        for dims, place in (((17,), 0), ((5, 9), 0), ((300,), 0)):
            for direction in ("LT", "GE"):
                if direction == "GE":  # not a strict order: only what is equal in all may move
                    continue
                name = f"sort {element}{list(dims)} {place} {direction} triple"
                generator = seed_of(name)
                data = small_integers(element, dims, generator)
                numbers = np.arange(data.size, dtype=np.int32).reshape(dims)
                more = values("bf16", dims, generator)
                build = _sort(element, place, direction, 3, numbers.dtype.name)
                yield Case(name, (data, numbers, more), build)
    for element in FLOATS:
        name = f"sort {element} total order with NaN"
        data = seed_of(name).permutation(special_values(element))
        yield Case(name, (data,), _sort(element, 0, "LT", 1, total=True))
    for dims in ((40,), (6, 9)):
        name = f"sort two keys {list(dims)}"
        generator = seed_of(name)
        data = small_integers("s32", dims, generator), small_integers("f32", dims, generator)
        numbers = np.arange(data[0].size, dtype=np.int32).reshape(dims)
        yield Case(name, (*data, numbers), _sort_by_two())


def _sort(
    element: str, place: int, direction: str, count: int, second: str = "", *, total: bool = False
) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        inner = Builder("order")
        pairs = [
            inner.parameter(2 * n + side, f"{operand.shape.dtype}[]")
            for n, operand in enumerate(given)
            for side in (0, 1)
        ]
        attributes: dict[str, Any] = {"type": "TOTALORDER"} if total else {}
        called = inner.build(inner.compare(*pairs[:2], direction=direction, **attributes))
        return b.sort(*given, dimensions=(place,), is_stable=count > 1, to_apply=called)

    return build


def _sort_by_two() -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        inner = Builder("order")
        types = [operand.shape.dtype.name for operand in given]
        a, c, x, y, _, _ = (inner.parameter(n, f"{types[n // 2]}[]") for n in range(6))
        less = inner.compare(a, c, direction="LT")
        equal = inner.compare(a, c, direction="EQ")
        second = inner.compare(x, y, direction="GT")
        called = inner.build(inner.or_(less, inner.and_(equal, second)))
        place = given[0].shape.rank - 1
        return b.sort(*given, dimensions=(place,), is_stable=True, to_apply=called)

    return build


def topks() -> Iterator[Case]:
    """Greatest elements, with ties and NaN."""
    for element in ("f32", "s32", "bf16", "u8"):
        for dims, k in (
            ((9,), 3),
            ((9,), 9),
            ((4, 33), 5),
            ((4, 33), 1),
            ((2, 3, 7), 2),
            ((5,), 0),
        ):
            name = f"topk {element}{list(dims)} {k}"
            data = small_integers(element, dims, seed_of(name))
            yield Case(name, (data,), build_one("topk", k=k, largest=True))


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for family in (gathers, scatters, replacing, dynamic_slices, sorts, topks):
        yield from family()

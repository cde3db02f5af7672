# SPDX-License-Identifier: Apache-2.0
"""Cases of ops that move elements, of reductions and of windows: all attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from tests.differential.case import Array, Build, Case, Nearness, seed_of, small_integers, values

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import Kind, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import WindowDimension

SUM = Nearness(ulps=64, xla_ulps=64, of_largest=True, reason="order of summation")
_TYPES = ("f32", "s32", "bf16", "u8", "pred", "f64", "s64", "f16", "s16", "c64")


def build_one(opcode: str, **attributes: Any) -> Build:
    """Return the program of one instruction."""

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        return b.emit(opcode, *given, **attributes)

    return build


def _data(name: str, element: str, *shapes: Sequence[int]) -> tuple[Array, ...]:
    generator = seed_of(name)
    return tuple(values(element, dims, generator) for dims in shapes)


def moves() -> Iterator[Case]:
    """Broadcast, reshape, transpose, reverse, slice, concatenate, iota."""
    for element in _TYPES:
        for dims, result, places in (
            ((), (3, 5), ()), ((4,), (4, 3), (0,)), ((4,), (3, 4), (1,)),
            ((3, 4), (3, 2, 4), (0, 2)),
            ((3, 4), (4, 3), (1, 0)), ((0,), (0, 3), (0,)), ((1, 5), (1, 5, 1), (0, 1)),
            ((17,), (33, 17, 2), (1,)), ((2, 3), (3, 4, 2), (2, 0)),
        ):  # fmt: skip
            name = f"broadcast {element}{list(dims)}->{list(result)}{list(places)}"
            shape = f"{element}[{','.join(map(str, result))}]"
            build = build_one("broadcast", shape=shape, dimensions=places)
            yield Case(name, _data(name, element, dims), build)
        for dims, result in (
            ((6,), (2, 3)), ((2, 3), (6,)), ((1, 1), ()), ((), (1,)), ((4, 6), (3, 8)),
            ((0, 3), (0,)), ((5, 1, 7), (5, 7)), ((2, 3, 4), (4, 3, 2)), ((37, 2), (2, 37)),
        ):  # fmt: skip
            name = f"reshape {element}{list(dims)}->{list(result)}"
            shape = f"{element}[{','.join(map(str, result))}]"
            yield Case(name, _data(name, element, dims), build_one("reshape", shape=shape))
        for dims, order in (
            ((3, 5), (1, 0)), ((65, 33), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)),
            ((0, 3), (1, 0)), ((2, 3, 4, 5), (3, 1, 0, 2)), ((7,), (0,)), ((1, 9, 1), (2, 1, 0)),
            ((2, 2, 3, 2, 3), (4, 0, 3, 1, 2)), ((3, 17, 19), (1, 0, 2)),
        ):  # fmt: skip
            name = f"transpose {element}{list(dims)}{list(order)}"
            yield Case(name, _data(name, element, dims), build_one("transpose", dimensions=order))
        for dims, places in (
            ((7,), (0,)), ((3, 5), (0, 1)), ((3, 5), (1,)), ((4, 1, 33), (2, 0)), ((0, 2), (0,)),
            ((6, 7), ()),
        ):  # fmt: skip
            name = f"reverse {element}{list(dims)}{list(places)}"
            yield Case(name, _data(name, element, dims), build_one("reverse", dimensions=places))
        for dims, box in (
            ((9,), ((2, 7, 1),)), ((9,), ((0, 9, 4),)), ((9,), ((3, 3, 1),)),
            ((6, 37), ((1, 6, 2), (5, 37, 3))), ((4, 4), ((0, 4, 1), (3, 4, 1))),
            ((5, 6, 7), ((4, 5, 1), (0, 6, 5), (1, 7, 2))), ((0, 4), ((0, 0, 1), (1, 3, 1))),
        ):  # fmt: skip
            name = f"slice {element}{list(dims)}{box}"
            yield Case(name, _data(name, element, dims), build_one("slice", slice=box))
        for shapes, place in (
            (((3,), (4,)), 0), (((3,), (0,), (2,)), 0), (((2, 3), (2, 5), (2, 1)), 1),
            (((2, 3), (1, 3)), 0), (((4, 2, 3), (4, 9, 3)), 1), (((5,),), 0), (((0, 3), (0, 3)), 0),
            (tuple((n, 2) for n in range(1, 9)), 0),
        ):  # fmt: skip
            name = f"concatenate {element}{list(map(list, shapes))}{place}"
            build = build_one("concatenate", dimensions=(place,))
            yield Case(name, _data(name, element, *shapes), build)
        if element == "pred":
            continue
        for dims, place in (((7,), 0), ((3, 5), 0), ((3, 5), 1), ((0, 2), 1), ((2, 33, 3), 1)):
            shape = f"{element}[{','.join(map(str, dims))}]"
            build = build_one("iota", shape=shape, iota_dimension=place)
            yield Case(f"iota {element}{list(dims)}{place}", (), build)


def pads() -> Iterator[Case]:
    """Pad with negative, interior and both, of empty arrays too."""
    for element in _TYPES:
        for dims, padding in (
            ((5,), ((2, 3, 0),)), ((5,), ((0, 0, 2),)), ((5,), ((-1, -2, 0),)),
            ((5,), ((-3, 4, 1),)),
            ((0,), ((2, 1, 3),)), ((3, 4), ((1, 0, 0), (0, 2, 1))), ((6,), ((-4, -4, 2),)),
            ((3, 4), ((-1, 1, 2), (2, -3, 0))), ((1, 1), ((3, 0, 5), (0, 3, 5))),
            ((2, 0), ((1, 1, 0), (0, 2, 0))), ((4,), ((-2, -2, 0),)),
            ((33, 3), ((0, 31, 1), (1, 1, 0))),
            ((2, 3, 4), ((0, 0, 0), (1, 1, 1), (-1, -1, 2))), ((5,), ((-5, 2, 0),)),
            ((4,), ((3, -6, 1),)),
        ):  # fmt: skip
            name = f"pad {element}{list(dims)}{padding}"
            build = build_one("pad", padding=padding)
            yield Case(name, _data(name, element, dims, ()), build)


_REDUCERS = {
    Kind.PRED: ("and", "or", "xor"),
    Kind.SIGNED: ("add", "multiply", "maximum", "minimum", "and", "or", "xor"),
    Kind.UNSIGNED: ("add", "multiply", "maximum", "minimum", "and", "or", "xor"),
    Kind.FLOAT: ("add", "multiply", "maximum", "minimum"),
    Kind.COMPLEX: ("add", "multiply"),
}


def _neutral(name: str, element: str) -> Any:
    kind = dtype(element)
    if name in ("add", "or", "xor"):
        return 0
    if name == "multiply":
        return 1
    if name == "and":
        return True if kind.kind is Kind.PRED else (-1 if kind.is_signed else 2**kind.bits - 1)
    low, high = (-100, 100) if kind.kind is not Kind.UNSIGNED else (0, 100)
    return low if name == "maximum" else high


def reductions() -> Iterator[Case]:
    """Reduce over every choice of dimensions; several results."""
    boxes = (
        ((5,), (0,)), ((1,), (0,)), ((0,), (0,)), ((), ()), ((1237,), (0,)), ((3, 5), (0,)),
        ((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3, 4), (2,)),
        ((3, 0), (1,)), ((0, 3), (1,)), ((33, 65), (0,)), ((33, 65), (1,)), ((2, 3, 4), ()),
        ((1, 7, 1), (0, 2)), ((7, 129, 3), (1,)),
    )  # fmt: skip
    for element in ("f32", "f64", "bf16", "f16", "s32", "u8", "s8", "s64", "u32", "pred", "c64"):
        for reducer in _REDUCERS[dtype(element).kind]:
            for dims, places in boxes if element in ("f32", "s32") else boxes[::2]:
                name = f"reduce {element}{list(dims)}{list(places)} {reducer}"
                data = small_integers(element, dims, seed_of(name))
                if reducer == "multiply" and dtype(element).kind in (Kind.FLOAT, Kind.COMPLEX):
                    data = np.where(np.abs(data) > 1, np.ones_like(data), data) + np.zeros_like(
                        data
                    )
                start = np.array(_neutral(reducer, element)).astype(data.dtype)
                build = _reduce(reducer, element, places)
                yield Case(name, (data, start), build, SUM)
    for element in ("f32", "bf16", "f64"):
        for reducer in ("maximum", "minimum", "add"):
            for special in (np.nan, np.inf, -np.inf, -0.0):
                name = f"reduce {element}[3,19] {reducer} with {special}"
                data = values(element, (3, 19), seed_of(name))
                data[1, 7] = special
                start = np.array(_neutral(reducer, element)).astype(data.dtype)
                yield Case(name, (data, start), _reduce(reducer, element, (1,)), SUM)
    for dims, places in (((7,), (0,)), ((3, 5), (1,)), ((65, 9), (0,)), ((0, 3), (0,))):
        for element in ("f32", "s32", "bf16"):
            name = f"reduce argmax {element}{list(dims)}{list(places)}"
            data = small_integers(element, dims, seed_of(name))
            yield Case(name, (data,), _argmax(element, places))


def _reduce(reducer: str, element: str, places: tuple[int, ...]) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        called = scalar_computation(reducer, element)
        return b.reduce(*given, dimensions=places, to_apply=called)

    return build


def _argmax(element: str, places: tuple[int, ...]) -> Build:
    """Return the program that JAX's argmax is."""

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (data,) = given
        shape = data.shape.with_dtype("s32")
        numbers = b.iota(shape=shape, iota_dimension=places[0])
        inner = Builder("argmax")
        x, i = inner.parameter(0, f"{element}[]"), inner.parameter(1, "s32[]")
        y, j = inner.parameter(2, f"{element}[]"), inner.parameter(3, "s32[]")
        greater = inner.compare(x, y, direction="GT")
        equal = inner.compare(x, y, direction="EQ")
        first = inner.and_(equal, inner.compare(i, j, direction="LT"))
        index = inner.select(inner.or_(greater, first), i, j)
        called = inner.build(inner.tuple(inner.select(greater, x, y), index))
        starts = [b.constant(-100, element), b.constant(1 << 30, "s32")]
        return b.reduce(data, numbers, *starts, dimensions=places, to_apply=called)

    return build


_WINDOWS: tuple[tuple[tuple[int, ...], tuple[WindowDimension, ...]], ...] = (
    ((9,), (WindowDimension(3),)),
    ((9,), (WindowDimension(3, stride=2),)),
    ((9,), (WindowDimension(3, low=2, high=1),)),
    ((9,), (WindowDimension(3, low=-2, high=-1),)),
    ((9,), (WindowDimension(3, window_dilation=2),)),
    ((9,), (WindowDimension(2, base_dilation=3),)),
    ((9,), (WindowDimension(4, stride=3, low=3, high=2, base_dilation=2, window_dilation=3),)),
    ((9,), (WindowDimension(9),)),
    ((9,), (WindowDimension(9, low=8),)),
    ((9,), (WindowDimension(9, high=8),)),
    ((2,), (WindowDimension(5),)),
    ((0,), (WindowDimension(2, low=2, high=2),)),
    ((6, 7), (WindowDimension(2), WindowDimension(3, stride=2))),
    ((6, 7), (WindowDimension(1), WindowDimension(7, low=6))),
    ((6, 7), (WindowDimension(6, low=5), WindowDimension(1))),
    ((6, 7), (WindowDimension(1), WindowDimension(1))),
    ((2, 8, 8, 3), (WindowDimension(1), WindowDimension(2, stride=2), WindowDimension(2, stride=2),
                    WindowDimension(1))),
    ((2, 7, 9, 3), (WindowDimension(1), WindowDimension(3, stride=2, low=1, high=1),
                    WindowDimension(3, stride=2, low=0, high=1), WindowDimension(1))),
    ((1, 2, 9, 9), (WindowDimension(1), WindowDimension(1), WindowDimension(3, low=1, high=1),
                    WindowDimension(3, low=1, high=1))),
    ((5, 33), (WindowDimension(2, base_dilation=2, window_dilation=3), WindowDimension(5, low=2))),
    ((11,), (WindowDimension(3, stride=3, low=2, high=2),)),
    ((11,), (WindowDimension(2, stride=5, low=1),)),
    ((11,), (WindowDimension(4, stride=3, low=-2, high=3),)),
    ((2, 13, 9, 3), (WindowDimension(1), WindowDimension(5, stride=2, low=2, high=1),
                     WindowDimension(5, stride=3, low=1, high=2), WindowDimension(1))),
    ((1, 8, 6, 2), (WindowDimension(1), WindowDimension(7, low=3, high=3),
                    WindowDimension(6, low=2, high=3), WindowDimension(1))),
)  # fmt: skip


def windows() -> Iterator[Case]:
    """Reduce-window with strides, padding, both dilations; several operands."""
    for element in ("f32", "s32", "bf16", "f64", "u8"):
        for reducer in ("add", "maximum", "minimum"):
            for number, (dims, window) in enumerate(_WINDOWS):
                name = f"reduce-window {element}{list(dims)} {reducer} #{number}"
                data = small_integers(element, dims, seed_of(name))
                start = np.array(_neutral(reducer, element)).astype(data.dtype)
                yield Case(name, (data, start), _reduce_window(reducer, element, window), SUM)
    for number, (dims, window) in enumerate(_WINDOWS):
        name = f"reduce-window pair{list(dims)} #{number}"
        data = small_integers("f32", dims, seed_of(name)), small_integers("s32", dims, seed_of("b"))
        yield Case(name, data, _window_pair(window), SUM)


def _reduce_window(reducer: str, element: str, window: tuple[WindowDimension, ...]) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        called = scalar_computation(reducer, element)
        return b.reduce_window(*given, window=window, to_apply=called)

    return build


def _window_pair(window: tuple[WindowDimension, ...]) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        inner = Builder("pair")
        x, i = inner.parameter(0, "f32[]"), inner.parameter(1, "s32[]")
        y, j = inner.parameter(2, "f32[]"), inner.parameter(3, "s32[]")
        called = inner.build(inner.tuple(inner.add(x, y), inner.maximum(i, j)))
        starts = [b.constant(0, "f32"), b.constant(-100, "s32")]
        return b.reduce_window(*given, *starts, window=window, to_apply=called)

    return build


def select_and_scatters() -> Iterator[Case]:
    """Select-and-scatter: gradients of max and min pooling, overlapping windows, padding."""
    for element in ("f32", "s32", "bf16", "f64"):
        for select in ("GE", "LE", "GT"):
            for number, (dims, window) in enumerate(_WINDOWS):
                dilated = any(w.base_dilation > 1 or w.window_dilation > 1 for w in window)
                if dilated or 0 in dims or number == 10:
                    continue
                name = f"select-and-scatter {element}{list(dims)} {select} #{number}"
                generator = seed_of(name)
                data = _distinct(element, dims, generator)
                counts = [w.count(s) for w, s in zip(window, dims, strict=True)]
                source = small_integers(element, [int(str(c)) for c in counts], generator)
                start = np.zeros((), data.dtype)
                build = _select_and_scatter(select, element, window)
                yield Case(name, (data, source, start), build, SUM)


def _distinct(element: str, dims: Sequence[int], generator: np.random.Generator) -> Array:
    count = int(np.prod(dims))
    return (generator.permutation(count) - count // 2).reshape(dims).astype(dtype(element).numpy)


def _select_and_scatter(direction: str, element: str, window: tuple[WindowDimension, ...]) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        inner = Builder("select")
        x, y = inner.parameter(0, f"{element}[]"), inner.parameter(1, f"{element}[]")
        select: Computation = inner.build(inner.compare(x, y, direction=direction))
        scatter = scalar_computation("add", element)
        return b.select_and_scatter(*given, window=window, select=select, scatter=scatter)

    return build


FAMILIES: tuple[Callable[[], Iterator[Case]], ...] = (
    moves, pads, reductions, windows, select_and_scatters,
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for family in FAMILIES:
        yield from family()

# SPDX-License-Identifier: Apache-2.0
"""Programs for guard pages: those that move, fold, multiply and sort, over element types and sizes.

Four suites: `table` and `sorts` are written here, `cases` are those of the differential run in
modules of twenty, `random` are random modules. Each program is known by suite and number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from tests.differential.case import ALONE
from tests.differential.engine import module_of
from tests.differential.table import all_cases
from tests.support.random_modules import random_module

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DType, dtype
from ingot.hlo.module import Module
from ingot.kernel.sort.sort import PART

Array = np.ndarray[Any, np.dtype[Any]]
Made = tuple[Module, Sequence[Array]]

SIZES = (1, 7, 13, 1003)
TYPES = (
    "f32", "bf16", "s8", "pred", "f64", "f16", "s16", "s32", "s64", "u8", "u16", "u32", "u64",
    "f8e4m3fn", "s4", "u4", "c64", "c128",
)  # fmt: skip
BATCH = 20
RANDOM_PROGRAMS = 200


@dataclass(frozen=True, slots=True)
class Program:
    """A program by name; `make` gives its module and inputs."""

    name: str
    make: Callable[[], Made]


REAL = (
    "negate",
    "sort",
    "top-k",
    "reduce-window",
    "strided reduce-window",
    "product",
    "convolution",
)
"""Bodies that need numbers: not for pred, and those of order not for complex numbers."""

BODIES: dict[str, str] = {
    "copy": "ROOT r = T[N,3] copy(x)",
    "negate": "ROOT r = T[N,3] negate(x)",
    "convert up": "ROOT r = f32[N,3] convert(x)",
    "convert down": "ROOT r = s8[N,3] convert(x)",
    "compare": "ROOT r = pred[N,3] compare(x, x), direction=EQ",
    "transpose": "ROOT r = T[3,N] transpose(x), dimensions={1,0}",
    "reverse": "ROOT r = T[N,3] reverse(x), dimensions={0,1}",
    "strided slice": "ROOT r = T[H,2] slice(x), slice={[0:N:2],[0:3:2]}",
    "every second": "y = T[3,N] reshape(x)\n  ROOT r = T[3,H] slice(y), slice={[0:3],[0:N:2]}",
    "pad": "ROOT r = T[P,6] pad(x, zero), padding=2_1_1x1_2",
    "negative pad": "ROOT r = T[N,4] pad(x, zero), padding=-1_1x0_1",
    "concatenate": "ROOT r = T[N,8] concatenate(x, part, x), dimensions={1}",
    "concatenate rows": "ROOT r = T[D,3] concatenate(x, x), dimensions={0}",
    "broadcast": "ROOT r = T[N,3,5] broadcast(x), dimensions={0,1}",
    "gather rows": "ROOT r = T[9,3] gather(x, places), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "gather columns": "ROOT r = T[9,N] gather(x, places), offset_dims={1}, "
    "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={N,1}",
    "gather points": "ROOT r = T[9] gather(x, pairs), offset_dims={}, collapsed_slice_dims={0,1}, "
    "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
    "dynamic slice": "ROOT r = T[H,2] dynamic-slice(x, i, i), dynamic_slice_sizes={H,2}",
    "dynamic update": "ROOT r = T[N,3] dynamic-update-slice(x, part, i, i)",
    "scatter": "ROOT r = T[N,3] scatter(x, places, rows), update_window_dims={1}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=fold",
    "segments of rows": "ROOT r = T[9,3] scatter(rows, segments, x), update_window_dims={1}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=fold",
    "segments": "ROOT r = T[9] scatter(nine, segments, line), update_window_dims={}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=fold",
    "fold rows": "ROOT r = T[N] reduce(x, zero), dimensions={1}, to_apply=fold",
    "fold columns": "ROOT r = T[3] reduce(x, zero), dimensions={0}, to_apply=fold",
    "fold all": "ROOT r = T[] reduce(x, zero), dimensions={0,1}, to_apply=fold",
    "running fold": "ROOT r = T[N,3] reduce-window(x, zero), window={size=Nx1 pad=L_0x0_0}, "
    "to_apply=fold",
    "strided reduce-window": "y = T[3,N] reshape(x)\n  ROOT r = T[3,H] reduce-window(y, zero), "
    "window={size=1x2 stride=1x2 pad=0_0x0_1}, to_apply=fold",
    "reduce-window": "ROOT r = T[N,3] reduce-window(x, zero), window={size=3x3 pad=1_1x1_1}, "
    "to_apply=fold",
    "sort": "ROOT r = T[N,3] sort(x), dimensions={0}, to_apply=before",
    "sort rows": "ROOT r = T[N,3] sort(x), dimensions={1}, to_apply=before",
    "top-k": "ROOT r = (T[N,2], s32[N,2]) topk(x), k=2, largest=true",
    "product": "ROOT r = T[N,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "product by rows": "ROOT r = T[3,3] dot(x, x), lhs_contracting_dims={0}, "
    "rhs_contracting_dims={0}",
    "convolution": "y = T[1,N,3] reshape(x)\nROOT r = T[1,N,5] convolution(y, k), "
    "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
}

TEMPLATE = """HloModule guarded
fold { a = T[] parameter(0)
 b = T[] parameter(1)
 ROOT c = T[] FOLD(a, b) }
before { a = T[] parameter(0)
 b = T[] parameter(1)
 ROOT c = pred[] compare(a, b), direction=LT }
ENTRY main {
x = T[N,3] parameter(0)
part = T[N,2] parameter(1)
rows = T[9,3] parameter(2)
w = T[3,5] parameter(3)
k = T[3,3,5] parameter(4)
places = s32[9,1] parameter(5)
pairs = s32[9,2] parameter(6)
i = s32[] parameter(7)
segments = s32[N,1] parameter(8)
line = T[N] parameter(9)
nine = T[9] parameter(10)
zero = T[] constant(ZERO)
BODY
}
"""


def _fits(body: str, element: DType) -> bool:
    word = body.split()[0]
    if element.name == "pred":
        return word not in (*REAL, "convolution", "product")
    if element.is_complex:
        return word not in ("sort", "top-k", "convert")
    if body == "negate":
        return element.is_float or element.is_signed
    return element.bits >= 8 or word not in ("top-k", "convolution")


def _written(body: str, name: str, size: int) -> Made:
    """Return a body's module over arrays of `size` rows, with what it takes."""
    element = dtype(name)
    text = TEMPLATE.replace("BODY", BODIES[body])
    fold = "or" if name == "pred" else "add"
    zero = {"pred": "false", "c64": "(0,0)", "c128": "(0,0)"}.get(name, "0")
    text = text.replace("FOLD", fold).replace("ZERO", zero).replace("T[", f"{name}[")
    numbers = {"N": size, "H": (size + 1) // 2, "P": 2 * size + 2, "D": 2 * size, "L": size - 1}
    for letter, number in numbers.items():
        for before, after in (("[", ","), ("[", "]"), (",", "]"), (":", ":"), (",", ","),
                              ("{", ","), ("=", "x"), ("=", "_"), ("{", "}")):  # fmt: skip
            text = text.replace(f"{before}{letter}{after}", f"{before}{number}{after}")
    draw = np.random.default_rng(size)
    shapes = ((size, 3), (size, 2), (9, 3), (3, 5), (3, 3, 5))
    values = [draw.integers(0, 2, shape).astype(element.numpy) for shape in shapes]
    last = np.int32([[size - 1]])
    places = np.int32(draw.integers(0, size, (9, 1)))
    pairs = np.concatenate([places, np.int32(draw.integers(0, 3, (9, 1)))], axis=1)
    places[0], pairs[0] = last, (size - 1, 2)
    if body == "gather columns":
        places = pairs[:, 1:].copy()
    segments = np.int32(draw.integers(-2, 11, (size, 1)))
    lines = [draw.integers(0, 2, length).astype(element.numpy) for length in (size, 9)]
    return ingot.parse_hlo(text), [*values, places, pairs, np.int32(size), segments, *lines]


def _of_cases(start: int) -> Made:
    module, inputs, _ = module_of(_alone()[start : start + BATCH])
    return module, inputs


@cache
def _alone() -> list[Any]:
    return [case for case in all_cases() if case.grid == ALONE]


def _random(seed: int) -> Made:
    elements = (("f32", "f32", "s32", "pred"), ("f32", "bf16", "u8"), ("f64", "s8", "f16"))
    return random_module(
        seed,
        steps=5 + seed % 20,
        structured=seed % 3 == 0,
        sizes=(1, 2, 3, 5, 7, 13, 33, 65),
        elements=tuple(map(dtype, elements[seed % 3])),
    )


def _table() -> Iterator[Program]:
    for size in (13, 7, 1, 1003):
        for name in TYPES:
            for body in BODIES:
                if _fits(body, dtype(name)):
                    make = partial(_written, body, name, size)
                    yield Program(f"{body} of {name}, {size} rows", make)


SORTED = (1, 2, 7, 15, 16, 17, 63, 64, 65, 129, 193, 257, 1003, 5003, 2 * PART + 77)
"""Elements of rows that are sorted: about those of registers and blocks, and rows that are cut."""


def _sort(elements: tuple[str, ...], size: int) -> Made:
    """Return a sort of two rows, of numbers in total order."""
    order = Builder("before")
    left, right, *_ = [
        order.parameter(2 * n + side, f"{element}[]")
        for n, element in enumerate(elements)
        for side in (0, 1)
    ]
    kind = "TOTALORDER" if dtype(elements[0]).is_float else ""
    before = order.build(order.compare(left, right, direction="LT", type=kind))
    build = Builder("main")
    operands = [build.parameter(n, f"{each}[2,{size}]") for n, each in enumerate(elements)]
    root = build.sort(*operands, dimensions=(1,), is_stable=True, to_apply=before)
    draw, inputs = np.random.default_rng(size), list[Array]()
    for each in elements:
        item = np.dtype(dtype(each).numpy)
        bits = draw.integers(0, 256, (2, size, item.itemsize)).astype(np.uint8)
        inputs.append(bits.view(item)[..., 0])
    return Module.of("sorted", build.build(root)), inputs


def _sorts() -> Iterator[Program]:
    for size in SORTED:
        for name in ("f32", "s32", "f64", "s64", "u8", "bf16"):
            for elements in ((name,), (name, "s32")):
                made = partial(_sort, elements, size)
                yield Program(f"sort of {' and '.join(elements)}, 2 rows of {size}", made)


@cache
def suite(name: str) -> tuple[Program, ...]:
    """Return the programs of a suite."""
    if name == "table":
        return tuple(_table())
    if name == "sorts":
        return tuple(_sorts())
    if name == "cases":
        starts = range(0, len(_alone()), BATCH)
        return tuple(Program(f"cases from {n}", partial(_of_cases, n)) for n in starts)
    return tuple(Program(f"seed {n}", partial(_random, n)) for n in range(RANDOM_PROGRAMS))

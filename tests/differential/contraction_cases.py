# SPDX-License-Identifier: Apache-2.0
"""Cases of dot and convolution: every kind of dimension number, dilation, padding, group."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from tests.differential.case import Array, Case, seed_of, small_integers, values
from tests.differential.shaping_cases import SUM, build_one

from ingot.hlo.dtype import dtype
from ingot.hlo.window import WindowDimension

# lhs dims, rhs dims, lhs batch, rhs batch, lhs contracting, rhs contracting
_DOTS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3,), (3,), (), (), (0,), (0,)),
    ((1,), (1,), (), (), (0,), (0,)),
    ((0,), (0,), (), (), (0,), (0,)),
    ((3,), (4,), (), (), (), ()),
    ((), (4,), (), (), (), ()),
    ((2, 3), (3, 4), (), (), (1,), (0,)),
    ((2, 3), (4, 3), (), (), (1,), (1,)),
    ((3, 2), (3, 4), (), (), (0,), (0,)),
    ((3, 2), (4, 3), (), (), (0,), (1,)),
    ((2, 3), (3,), (), (), (1,), (0,)),
    ((3,), (3, 4), (), (), (0,), (0,)),
    ((2, 0), (0, 4), (), (), (1,), (0,)),
    ((0, 3), (3, 4), (), (), (1,), (0,)),
    ((1, 65), (65, 33), (), (), (1,), (0,)),
    ((65, 33), (33, 1), (), (), (1,), (0,)),
    ((65, 33), (33, 17), (), (), (1,), (0,)),
    ((5, 2, 3), (5, 3, 4), (0,), (0,), (2,), (1,)),
    ((2, 5, 3), (3, 5, 4), (1,), (1,), (2,), (0,)),
    ((2, 3, 5), (5, 4, 3), (2,), (0,), (1,), (2,)),
    ((5, 3), (5, 3), (0,), (0,), (1,), (1,)),
    ((5, 3), (5, 3), (0, 1), (0, 1), (), ()),
    ((5, 3), (3, 5), (0, 1), (1, 0), (), ()),
    ((2, 3, 4), (4, 3, 5), (), (), (1, 2), (1, 0)),
    ((2, 3, 4), (3, 4, 5), (), (), (2, 1), (1, 0)),
    ((2, 3, 4, 5), (3, 2, 5, 6), (0, 1), (1, 0), (3,), (2,)),
    ((2, 3, 4, 5), (2, 3, 7, 5), (0, 1), (0, 1), (3,), (3,)),
    ((2, 4, 3, 5), (2, 7, 3, 5), (0, 2), (0, 2), (3,), (3,)),
    ((4, 2, 3), (5, 3, 2, 6), (1,), (2,), (2,), (1,)),
    ((2, 3, 4), (5, 4), (), (), (2,), (1,)),
    ((2, 1, 4), (2, 4, 1), (0,), (0,), (2,), (1,)),
    ((3, 16, 16), (3, 16, 16), (0,), (0,), (1,), (2,)),
    ((2, 3), (4, 5), (), (), (), ()),
    ((2, 3, 2, 3), (3, 2, 3, 2), (0,), (1,), (1, 3), (0, 2)),
)


def dots() -> Iterator[Case]:
    """Dots of all dimension numbers and types, and of mixed types."""
    for element in ("f32", "f64", "bf16", "f16", "s32", "s8", "u8", "s64", "pred", "c64", "c128"):
        for number, (lhs, rhs, *places) in enumerate(_DOTS):
            name = f"dot {element} #{number} {list(lhs)}x{list(rhs)}"
            yield _dot(name, element, element, element, lhs, rhs, places)
    for first, second, result in (
        ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("s8", "s8", "s32"), ("u8", "s8", "s32"),
        ("f32", "f32", "f64"), ("bf16", "f32", "f32"), ("u8", "u8", "u32"), ("s16", "s16", "s32"),
        ("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e5m2", "f8e4m3fn", "f32"), ("s4", "s4", "s32"),
        ("f8e4m3fn", "f8e4m3fn", "bf16"), ("f32", "f32", "s32"),
        ("f16", "f32", "s8"), ("s32", "s32", "f32"), ("bf16", "s8", "f32"), ("f32", "f32", "bf16"),
    ):  # fmt: skip
        for number in (5, 9, 13, 15, 16, 24):
            lhs, rhs, *places = _DOTS[number]
            name = f"dot {first}*{second}->{result} #{number}"
            yield _dot(name, first, second, result, lhs, rhs, places)
    for special in (np.nan, np.inf):
        name = f"dot f32 with {special}"
        case = _dot(name, "f32", "f32", "f32", *_DOTS[15][:2], _DOTS[15][2:])
        case.inputs[0][3, 3] = special
        yield case


def _dot(
    name: str, first: str, second: str, result: str,
    lhs: tuple[int, ...], rhs: tuple[int, ...], places: object,
) -> Case:  # fmt: skip
    lhs_batch, rhs_batch, lhs_contracting, rhs_contracting = places  # type: ignore[misc]
    generator = seed_of(name)
    make = small_integers if dtype(first).bits <= 8 or "pred" in first else values
    data = make(first, lhs, generator), make(second, rhs, generator)
    free = [lhs[i] for i in range(len(lhs)) if i not in (*lhs_batch, *lhs_contracting)]
    free += [rhs[i] for i in range(len(rhs)) if i not in (*rhs_batch, *rhs_contracting)]
    dims = [lhs[i] for i in lhs_batch] + free
    build = build_one(
        "dot",
        shape=f"{result}[{','.join(map(str, dims))}]",
        lhs_batch_dims=lhs_batch,
        rhs_batch_dims=rhs_batch,
        lhs_contracting_dims=lhs_contracting,
        rhs_contracting_dims=rhs_contracting,
    )
    return Case(name, data, build, SUM)


W = WindowDimension
_ONE_D = (
    W(3), W(1), W(3, stride=2), W(3, low=1, high=1), W(3, low=-1, high=-1), W(3, low=2, high=-1),
    W(3, base_dilation=2), W(3, window_dilation=2), W(3, reversal=True),
    W(2, stride=3, low=2, high=3, base_dilation=3, window_dilation=2),
    W(3, stride=2, low=3, high=3, base_dilation=2, window_dilation=2, reversal=True),
    W(4, low=3, high=3, reversal=True), W(3, stride=2, low=0, high=1), W(8), W(9),
)  # fmt: skip
_TWO_D = (
    (W(3), W(3)), (W(1), W(1)), (W(3, low=1, high=1), W(3, low=1, high=1)),
    (W(3, stride=2, low=1, high=1), W(2, stride=2)), (W(3, reversal=True), W(3, reversal=True)),
    (W(3, base_dilation=2, low=2, high=2), W(3, base_dilation=2, low=1, high=2)),
    (W(2, window_dilation=2), W(3, window_dilation=3, low=3)),
    (W(3, low=-1, high=1), W(1, stride=2)),
    (W(3, base_dilation=2, window_dilation=2, stride=2, low=3, high=3, reversal=True), W(2)),
    (W(7), W(7)), (W(5, low=2, high=2), W(1)),
)  # fmt: skip
_LABELS = {
    0: ("bf_io->bf", "fb_oi->fb"),
    1: ("b0f_0io->b0f", "bf0_oi0->bf0", "0bf_i0o->f0b"),
    2: ("b01f_01io->b01f", "bf01_oi01->bf01", "f01b_i01o->01bf", "b10f_10oi->f1b0"),
    3: ("b012f_012io->b012f", "bf012_oi012->bf012"),
}


def convolutions() -> Iterator[Case]:
    """Convolutions of 0 to 3 spatial dimensions; groups of features and of batches."""
    one = [((window,), label) for window in _ONE_D for label in _LABELS[1]]
    two = [(window, label) for window in _TWO_D for label in _LABELS[2]]
    three = [((W(2), W(3, low=1, high=1), W(2, stride=2)), label) for label in _LABELS[3]] + [
        ((W(2, base_dilation=2), W(1), W(3, window_dilation=2)), label) for label in _LABELS[3]
    ]
    groups = ((1, 1), (2, 1), (4, 1), (1, 2), (1, 4))
    for element in ("f32", "bf16", "f64", "s32"):
        for (window, label), (features, batches) in itertools.product([*one, *two, *three], groups):
            # Everything for f32, a part for the others.
            name = f"convolution {element} {label} {_text(window)} g{features} b{batches}"
            if element != "f32" and seed_of(name).random() > 0.12:
                continue
            yield _convolution(name, element, window, label, features, batches)
    for label in _LABELS[0]:
        yield _convolution(f"convolution f32 {label} none", "f32", (), label, 1, 1)
    for element in ("f16", "c64", "s8", "u8"):
        name = f"convolution {element} {_LABELS[2][0]} plain"
        yield _convolution(name, element, _TWO_D[2], _LABELS[2][0], 1, 1)


def _text(window: tuple[WindowDimension, ...]) -> str:
    return " ".join(
        f"{w.size}/{w.stride}:{w.low}_{w.high}l{w.base_dilation}r{w.window_dilation}"
        f"{'R' if w.reversal else ''}"
        for w in window
    )


def _convolution(
    name: str, element: str, window: tuple[WindowDimension, ...], label: str,
    features: int, batches: int,
) -> Case:  # fmt: skip
    lhs_label, rest = label.split("_", 1)
    rhs_label = rest.split("->")[0]
    spatial = (8, 7, 5)[: len(window)] if len(window) != 3 else (4, 3, 6)
    sizes = {"b": 4, "f": 4, "i": 4 // features, "o": 4 if label.startswith("f") else 8}
    lhs = [sizes[c] if c in sizes else spatial[int(c)] for c in lhs_label]
    rhs = [sizes[c] if c in sizes else window[int(c)].size for c in rhs_label]
    generator = seed_of(name)
    data: tuple[Array, Array] = (
        small_integers(element, lhs, generator),
        small_integers(element, rhs, generator),
    )
    build = build_one(
        "convolution",
        window=window,
        dim_labels=label,
        feature_group_count=features,
        batch_group_count=batches,
    )
    return Case(name, data, build, SUM)


def cases() -> Iterator[Case]:
    """Every case of this file."""
    yield from dots()
    yield from convolutions()

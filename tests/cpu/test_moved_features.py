# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose features are moved before space, by the epilogue: no kernel is added."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.support.against_evaluator import agrees_on_normal_numbers

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

W = WindowDimension


@dataclass(frozen=True)
class Case:
    """A convolution; `order` of its result's dimensions; whether it adds a bias and `another`."""

    image: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    features: int
    element: str = "f32"
    bias: bool = True
    another: bool = False

    def module(self) -> Module:
        build = Builder("main")
        taps = (*(one.size for one in self.window), self.image[-1], self.features)
        digits = "".join(map(str, range(len(self.window))))
        root = build.convolution(
            build.parameter(0, Shape.array(self.element, self.image)),
            build.parameter(1, Shape.array(self.element, taps)),
            window=self.window,
            dim_labels=f"b{digits}f_{digits}io->b{digits}f",
        )
        last = root.shape.rank - 1
        if self.bias:
            bias = build.parameter(2, Shape.array(self.element, (self.features,)))
            wide = build.broadcast(bias, shape=root.shape, dimensions=(last,))
            root = build.maximum(build.add(root, wide), build.full(0, root.shape))
        if self.another:
            root = build.add(root, build.parameter(2 + self.bias, root.shape))
        order = (0, last, *range(1, last))
        return Module.of("moved", build.build(build.transpose(root, dimensions=order)))


SAME = (W(3, 1, 1, 1), W(3, 1, 1, 1))
CASES = (
    Case((2, 40, 36, 3), (W(7, 2, 3, 3), W(7, 2, 3, 3)), 64),
    Case((1, 37, 35, 3), (W(3, 2, 1, 1), W(3, 2, 1, 1)), 32),
    Case((2, 64, 272, 3), (W(16, 16), W(16, 16)), 80),
    Case((3, 19, 28, 1), SAME, 6),
    Case((2, 19, 17, 4), SAME, 13, bias=False),
    Case((2, 23, 29, 1), (W(5, 1, 2, 2), W(5, 1, 2, 2)), 35),
    Case((1, 16, 16, 7), SAME, 64, another=True),
    Case((2, 9, 31, 3), SAME, 24, "f64"),
    Case((2, 100, 5), (W(5, 2, 2, 2),), 20),
    Case((1, 4, 5, 18, 3), (*SAME, W(3, 1, 1, 1)), 12, another=True),
    Case((2, 20, 33, 32), SAME, 32),  # Winograd's algorithm, where lines go two by two
)


@pytest.mark.parametrize("level", ["", "avx2"])
@pytest.mark.parametrize("case", CASES)
def test_the_epilogue_moves_features(case: Case, level: str) -> None:
    agrees_on_normal_numbers(case.module(), 3e-6 if case.element == "f32" else 1e-14, level)
    (kernel,) = ingot.compile(case.module()).kernels
    assert kernel.strategy in {"direct convolution", "Winograd convolution"}


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 9, 12, 3), SAME, 16),  # short lines
        Case((2, 9, 20, 3), (W(3, 1, 1, 2, 2), W(3, 1, 1, 2, 2)), 16),  # a part for each phase
    ],
)
def test_lines_that_are_short_or_spread_are_transposed_afterwards(case: Case) -> None:
    agrees_on_normal_numbers(case.module(), 3e-6)
    assert len(ingot.compile(case.module()).kernels) > 1


def test_results_that_several_read_keep_their_order() -> None:
    build = Builder("main")
    x = build.parameter(0, Shape.array("f32", (1, 20, 20, 3)))
    k = build.parameter(1, Shape.array("f32", (3, 3, 3, 16)))
    sums = build.convolution(x, k, window=SAME, dim_labels="b01f_01io->b01f")
    moved = build.transpose(sums, dimensions=(0, 3, 1, 2))
    module = Module.of("both", build.build(build.tuple(build.negate(sums), moved)))
    agrees_on_normal_numbers(module, 3e-6)

# SPDX-License-Identifier: Apache-2.0
"""Sums of products of broadcasts that become dots."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.support.against_evaluator import agrees_on_normal_numbers

import ingot
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape


@dataclass(frozen=True)
class Case:
    """A sum over some of `dims`; each factor varies along the dimensions that its row has."""

    dims: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]
    summed: tuple[int, ...]

    def module(self, element: str) -> Module:
        build = Builder("main")
        value = None
        for number, along in enumerate(self.factors):
            shape = Shape.array(element, tuple(self.dims[dimension] for dimension in along))
            factor = build.broadcast_to(build.parameter(number, shape), self.dims, along)
            value = factor if value is None else build.multiply(value, factor)
        assert value is not None
        adder = scalar_computation("add", value.shape.dtype)
        root = build.reduce(
            value, build.constant(0, element), dimensions=self.summed, to_apply=adder
        )
        module = Module.of("sum", build.build(root))
        module.take(adder)
        return module


DOTS = (
    Case((70, 16, 33), ((0, 1), (0, 2)), (0,)),
    Case((17, 9, 40), ((0, 1), (1, 2)), (1,)),
    Case((17, 31, 12), ((0, 2), (1, 2)), (2,)),
    # weights along the sum, along the rows, a number
    Case((70, 16, 33), ((0,), (0, 1), (0, 2), (1,), ()), (0,)),
    # several dimensions of each kind, in another order
    Case((3, 8, 5, 6, 7, 9), ((0, 2, 3, 4), (0, 1, 4, 5), (4,)), (4,)),
    Case((3, 8, 5, 6, 4, 9), ((1, 2, 5), (0, 2, 3, 4, 5)), (2, 5)),
)


@pytest.mark.parametrize("case", DOTS)
@pytest.mark.parametrize(("element", "error"), [("f32", 3e-6), ("f64", 1e-14)])
def test_they_are_the_same_sums(case: Case, element: str, error: float) -> None:
    module = case.module(element)
    text = str(ingot.compile(case.module(element)).as_text())
    assert " dot(" in text
    agrees_on_normal_numbers(module, error)

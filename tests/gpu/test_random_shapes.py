# SPDX-License-Identifier: Apache-2.0
"""Folds, transposes, products and scatters of random shapes, which random programs seldom reach."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from tests.gpu.kernels import MATMUL
from tests.gpu.programs import arguments, check_result, memory_of, program, wanted_of
from tests.gpu.simt import Emulation

from ingot.gpu.compiler import compile_kernel

SIZES = (1, 2, 3, 7, 8, 31, 32, 33, 40, 64, 100)

LONG = (300, 1025, 1500)

FOLDS = (
    ("f32", "add", 1e-3), ("f32", "maximum", 0.0), ("f64", "add", 1e-9), ("s32", "add", 0.0),
    ("bf16", "maximum", 0.0), ("s8", "add", 0.0), ("s64", "maximum", 0.0),
)  # fmt: skip

PRODUCTS = (("f32", 1e-3), ("f64", 1e-9), ("s32", 0.0), ("bf16", 0.1), ("pred", 0.0))

Made = tuple[str, float]
"""The body of a program, and a tolerance."""


def _text(numbers: Iterable[Any]) -> str:
    return ",".join(map(str, numbers))


def fold(choose: random.Random) -> Made:
    """Return a fold of a transposed operand, and perhaps what uses it for every element."""
    dims = [choose.choice(SIZES) for _ in range(choose.randint(1, 3))]
    if choose.random() < 0.3:
        dims[-1] = choose.choice(LONG)
    rank = len(dims)
    order = np.array(choose.sample(range(rank), rank))
    over = sorted(choose.sample(range(rank), choose.randint(1, rank)))
    left = [number for number in range(rank) if number not in over]
    element, op, tolerance = choose.choice(FOLDS)
    whole, folded = f"{element}[{_text(dims)}]", f"{element}[{_text([dims[n] for n in left])}]"
    body = f"""y = {element}[{_text([dims[n] for n in order])}] parameter(0)
      x = {whole} transpose(y), dimensions={{{_text(np.argsort(order))}}}
      one = {element}[] constant(1)
      r = {folded} reduce(x, one), dimensions={{{_text(over)}}}, to_apply={op}_{element}
      """
    if choose.random() < 0.4:
        body += f"""b = {whole} broadcast(r), dimensions={{{_text(left)}}}
          ROOT s = {whole} add(b, x)"""
    else:
        body += f"ROOT s = {folded} negate(r)"
    return body, tolerance


def transposed(choose: random.Random) -> Made:
    """Return a transpose."""
    dims = [min(choose.choice(SIZES), 40) for _ in range(choose.randint(2, 4))]
    order = choose.sample(range(len(dims)), len(dims))
    element = choose.choice(("f32", "f64", "bf16", "s8", "pred", "c64"))
    result = f"{element}[{_text([dims[n] for n in order])}]"
    return (
        f"""x = {element}[{_text(dims)}] parameter(0)
      ROOT t = {result} transpose(x), dimensions={{{_text(order)}}}""",
        0.0,
    )


def product(choose: random.Random) -> Made:
    """Return a matrix product."""
    m, k, n = (choose.choice(SIZES) for _ in range(3))
    element, tolerance = choose.choice(PRODUCTS)
    return MATMUL.format(type=element, m=m, k=k, n=n), tolerance


def scattered(choose: random.Random) -> Made:
    """Return a scatter of rows or of columns."""
    rows, columns, count = choose.choice((5, 40)), choose.choice(SIZES), choose.choice((1, 7, 30))
    op, element = choose.choice(("add", "subtract", "maximum")), choose.choice(("f32", "s32"))
    axis = choose.randint(0, 1)
    dims = (rows, columns) if axis == 0 else (columns, rows)
    return (
        f"""x = {element}[{_text(dims)}] parameter(0)
      i = s32[{count},1] parameter(1)
      u = {element}[{count},{columns}] parameter(2)
      ROOT r = {element}[{_text(dims)}] scatter(x, i, u), update_window_dims={{1}},
        inserted_window_dims={{{axis}}}, scatter_dims_to_operand_dims={{{axis}}},
        index_vector_dim=1, to_apply={op}_{element}""",
        0.0,
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("make", [fold, transposed, product, scattered])
def test_random_shapes(make: Callable[[random.Random], Made], seed: int) -> None:
    body, tolerance = make(random.Random(seed))
    given = program(body)
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    emulation = Emulation(compile_kernel(given.kernel))
    found = emulation.run(memory_of(given, inputs, wanted), {}, seed)
    for one, other in zip(found[len(inputs) :], wanted, strict=True):
        check_result(one, np.asarray(other), tolerance)

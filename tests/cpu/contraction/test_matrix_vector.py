# SPDX-License-Identifier: Apache-2.0
"""A vector times a matrix whose rows are as long: several rows at a time, or row by row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate

NUMPY = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
TOLERANCE = {"f32": 2e-6, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3}
SHAPES = [(301, 263), (263, 251), (1, 70001), (70001, 1), (9, 8209), (5003, 17)]


def _module(rows: int, depth: int, name: str, matrix_first: bool) -> ingot.Module:
    x, w = f"{name}[{depth}] parameter(0)", f"{name}[{rows},{depth}] parameter(1)"
    if matrix_first:
        product = "dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    else:
        product = "dot(x, turned), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    return ingot.parse_hlo(f"""HloModule m

ENTRY e {{
  x = {x}
  w = {w}
  turned = {name}[{depth},{rows}] transpose(w), dimensions={{1,0}}
  product = {name}[{rows}] {product}
  ROOT r = {name}[{rows}] maximum(product, product)
}}""")


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize(("rows", "depth"), SHAPES)
@pytest.mark.parametrize("matrix_first", [True, False])
def test_products_are_those_of_the_evaluator(
    rows: int, depth: int, name: str, matrix_first: bool
) -> None:
    random = np.random.default_rng(rows + depth)
    x = random.uniform(0.5, 1.5, depth).astype(NUMPY[name])
    w = random.uniform(0, 1 / depth, (rows, depth)).astype(NUMPY[name])
    w[rows // 2] = 0
    w[rows // 2, depth // 2] = np.inf
    w[rows - 1, depth - 1] = np.nan
    module = _module(rows, depth, name, matrix_first)
    found, wanted = ingot.compile(module)(x, w), evaluate(module, [x, w])
    np.testing.assert_allclose(
        np.asarray(found).astype(np.float64),
        np.asarray(wanted).astype(np.float64),
        rtol=TOLERANCE[name],
    )


@pytest.mark.parametrize(
    ("rows", "depth", "name", "strategy"),
    [
        (300, 300, "f32", "product"),
        (1000, 1000, "bf16", "product"),
        (3000, 5000, "f32", "product"),
        (4000, 3000, "f32", "product"),
        (4000, 300, "f32", "library reduction"),
        (20000, 1000, "bf16", "lanes"),
    ],
)
def test_what_reads_several_rows_at_a_time(rows: int, depth: int, name: str, strategy: str) -> None:
    (kernel,) = ingot.compile(_module(rows, depth, name, True)).kernels
    assert kernel.strategy == strategy

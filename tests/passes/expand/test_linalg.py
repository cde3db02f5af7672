# SPDX-License-Identifier: Apache-2.0
"""`cholesky` and `triangular-solve` compiled: against NumPy, with open sizes, on many threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import ELEMENTS, adjoint, assert_close, matrices

import ingot
from ingot.evaluator import evaluate

pytestmark = pytest.mark.fast_share(8)


def positive(element: str, *dims: int) -> Any:
    x = matrices(element, (*dims, dims[-1]))
    return (x @ adjoint(x) + dims[-1] * np.eye(dims[-1])).astype(x.dtype)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(element: str, lower: bool) -> None:
    module = ingot.parse_hlo(f"""
HloModule m

ENTRY main {{
  x = {element}[3,5,5] parameter(0)
  ROOT y = {element}[3,5,5] cholesky(x), lower={str(lower).lower()}
}}
""")
    a = positive(element, 3, 5)
    a[1] = -a[1]
    program = ingot.compile(module)
    # One of these was all NaN once in CI: the message says which.
    found = {"first": program(a), "second": program(a), "evaluated": evaluate(module, (a,))}
    for who, value in found.items():
        factor = value if lower else adjoint(value)
        assert_close(element, factor[[0, 2]], np.linalg.cholesky(a[[0, 2]]), who)
        assert np.isnan(value[1]).all(), who


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_solve(element: str, left: bool, lower: bool, transpose: str) -> None:
    dims = "2,4,3" if left else "2,3,4"
    for unit in (False, True):
        module = ingot.parse_hlo(f"""
HloModule m

ENTRY main {{
  a = {element}[2,4,4] parameter(0)
  b = {element}[{dims}] parameter(1)
  ROOT x = {element}[{dims}] triangular-solve(a, b), left_side={str(left).lower()},
    lower={str(lower).lower()}, unit_diagonal={str(unit).lower()}, transpose_a={transpose}
}}
""")
        a = positive(element, 2, 4)
        b = matrices(element, tuple(map(int, dims.split(","))), 1)
        matrix = np.tril(a) if lower else np.triu(a)
        if unit:
            matrix = matrix - matrix * np.eye(4) + np.eye(4)
        if transpose != "NO_TRANSPOSE":
            matrix = adjoint(matrix) if transpose == "ADJOINT" else np.swapaxes(matrix, -1, -2)
        for x in (ingot.compile(module)(a, b), evaluate(module, (a, b))):
            assert_close(element, matrix @ x if left else x @ matrix, b)


OPEN = """
HloModule m

ENTRY main {
  x = f32[?b,?n,?n] parameter(0)
  c = f32[?b,?n,?n] cholesky(x), lower=true
  ROOT y = f32[?b,?n,?n] triangular-solve(c, x), left_side=true, lower=true,
    transpose_a=NO_TRANSPOSE
}
"""


def test_open_sizes_and_several_threads() -> None:
    executable = ingot.compile(ingot.parse_hlo(OPEN))
    for n in (0, 1, 3, 17):
        a = positive("f32", 2, n) if n else np.zeros((2, 0, 0), np.float32)
        expected = np.swapaxes(np.linalg.cholesky(a), -1, -2) if n else a
        assert_close("f32", executable(a), expected)
    a = positive("f32", 20, 12)
    expected = executable(a)
    failures: list[bool] = []

    def work() -> None:
        failures.extend(not np.array_equal(executable(a), expected) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(failures)

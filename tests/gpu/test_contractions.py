# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and convolutions that are such."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import EPILOGUE, MATMUL
from tests.gpu.programs import check

TILED = "tiled contraction"


@pytest.mark.parametrize(("m", "k", "n"), [(64, 16, 64), (67, 35, 129), (1, 200, 3), (5, 0, 7)])
def test_matmul(m: int, k: int, n: int) -> None:
    kernel = check(MATMUL.format(type="f32", m=m, k=k, n=n), TILED, tolerance=1e-4)
    assert kernel.launches[0].blocks == -(-m // 64) * -(-n // 64)
    assert kernel.launches[0].shared_bytes == 2 * 16 * 64 * 4


@pytest.mark.parametrize(("element", "tolerance"), [
    ("f64", 1e-12), ("bf16", 0.05), ("f16", 0.01), ("s32", 0.0), ("s8", 0.0), ("pred", 0.0),
])  # fmt: skip
def test_element_types(element: str, tolerance: float) -> None:
    check(MATMUL.format(type=element, m=9, k=19, n=21), TILED, tolerance=tolerance)


@pytest.mark.parametrize("n", [0, 1, 33])
def test_symbolic_sizes(n: int) -> None:
    check(MATMUL.format(type="f32", m="?n", k="?n", n=40), TILED, {"n": n}, tolerance=1e-4)


def test_what_is_fused_before_and_after() -> None:
    check(EPILOGUE, TILED, tolerance=1e-4)


def test_convolution() -> None:
    body = """x = f32[2,9,9,3] parameter(0)
      k = f32[3,3,3,4] parameter(1)
      ROOT r = f32[2,9,9,4] convolution(x, k), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f"""
    check(body, TILED, tolerance=1e-4)

# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and convolutions that are such."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import EPILOGUE, MATMUL
from tests.gpu.programs import check
from tests.gpu.test_tensor_cores import product

TILED = "tiled contraction"


@pytest.mark.parametrize(("m", "k", "n"), [(64, 16, 64), (67, 35, 129), (9, 200, 10), (5, 0, 7)])
def test_matmul(m: int, k: int, n: int) -> None:
    kernel = check(MATMUL.format(type="f32", m=m, k=k, n=n), TILED, tolerance=1e-4)
    assert kernel.launches[0].blocks == -(-m // 64) * -(-n // 64)
    assert kernel.launches[0].shared_bytes == 2 * 2 * 16 * (64 + 4) * 4


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_large_tiles(layout: str) -> None:
    kernel = check(
        product(("f32", "f32"), "?m", 45, 144, layout), TILED, {"m": 135}, tolerance=1e-4
    )
    assert "m+127" in str(kernel.launches[0].blocks)
    assert kernel.launches[0].shared_bytes == 2 * 2 * 8 * (128 + 4) * 4


def test_heavy_epilogues_have_small_tiles() -> None:
    body = """a = f32[?m,8] parameter(0)
      b = f32[8,200] parameter(1)
      d = f32[?m,200] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = f32[?m,200] tanh(d)
      e = f32[?m,200] exponential(t)
      s = f32[?m,200] tanh(e)
      ROOT r = f32[?m,200] add(s, t)"""
    kernel = check(body, TILED, {"m": 9}, tolerance=1e-4)
    assert "m+63" in str(kernel.launches[0].blocks)


@pytest.mark.parametrize(("m", "k", "n", "strategy"), [
    (1, 200, 40, "columns"), (8, 1031, 33, "columns"),
    (37, 200, 1, "a warp per row"), (37, 1031, 3, "a block per row"), (1, 200, 1, "a warp per row"),
    (3, 1536, 40, "columns, then a thread per point"),
    (37, 1536, 2, "a warp per row, then a thread per point"),
])  # fmt: skip
@pytest.mark.parametrize("element", ["f32", "bf16", "s32"])
def test_few_rows(m: int, k: int, n: int, strategy: str, element: str) -> None:
    tolerance = {"f32": 1e-3, "bf16": 0.05, "s32": 0.0}[element]
    check(MATMUL.format(type=element, m=m, k=k, n=n), strategy, tolerance=tolerance, seeds=(0,))


def test_few_rows_of_weights_in_rows() -> None:
    kernel = check(
        product(("bf16", "f32"), 5, 128, "?n", "nt"), "a warp per row", {"n": 40}, tolerance=1e-3
    )
    assert "few rows" not in dict(kernel.refused)


def test_few_rows_with_fused_ops() -> None:
    body = """a = f32[3,4,96] parameter(0)
      b = f32[3,50,96] parameter(1)
      c = f32[50] parameter(2)
      r = f32[3,4,50] parameter(3)
      e = f32[3,4,96] negate(a)
      d = f32[3,4,50] dot(e, b), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={2}
      w = f32[3,4,50] broadcast(c), dimensions={2}
      s = f32[3,4,50] add(d, w)
      ROOT m = f32[3,4,50] multiply(s, r)"""
    check(body, "a warp per row", tolerance=1e-4)


@pytest.mark.parametrize(("element", "tolerance"), [
    ("s32", 0.0), ("s8", 0.0), ("pred", 0.0), ("s64", 0.0),
])  # fmt: skip
def test_element_types(element: str, tolerance: float) -> None:
    check(MATMUL.format(type=element, m=9, k=19, n=21), TILED, tolerance=tolerance)


@pytest.mark.parametrize("n", [0, 1, 33])
def test_symbolic_sizes(n: int) -> None:
    check(MATMUL.format(type="f32", m="?n", k="?n", n=40), TILED, {"n": n}, tolerance=1e-4)


def test_prologues_and_epilogues() -> None:
    check(EPILOGUE, TILED, tolerance=1e-4)


def test_convolution() -> None:
    body = """x = f32[2,9,9,3] parameter(0)
      k = f32[3,3,3,4] parameter(1)
      ROOT r = f32[2,9,9,4] convolution(x, k), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f"""
    check(body, TILED, tolerance=1e-4)

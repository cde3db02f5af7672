# SPDX-License-Identifier: Apache-2.0
"""Transposed loads through tiles in shared memory."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import TRANSPOSE
from tests.gpu.programs import check

TILES = "transposed tiles"


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "s8", "pred"])
@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (37, 41), (16, 131)])
def test_transpose(element: str, rows: int, columns: int) -> None:
    kernel = check(TRANSPOSE.format(type=element, rows=rows, columns=columns), TILES)
    assert kernel.launches[0].blocks == -(-rows // 32) * -(-columns // 32)


@pytest.mark.parametrize("n", [0, 1, 33])
def test_transpose_of_symbolic_sizes_with_fused_ops(n: int) -> None:
    body = """x = f32[?n,40] parameter(0)
      y = f32[40,?n] parameter(1)
      t = f32[40,?n] transpose(x), dimensions={1,0}
      ROOT s = f32[40,?n] subtract(t, y)"""
    check(body, TILES, {"n": n})


def test_transpose_in_batches() -> None:
    body = """x = f32[3,20,5,33] parameter(0)
      ROOT t = f32[3,33,5,20] transpose(x), dimensions={0,3,2,1}"""
    check(body, TILES)


def test_short_axes_have_no_tiles() -> None:
    kernel = check(TRANSPOSE.format(type="f32", rows=3, columns=200), "a thread per point")
    assert dict(kernel.refused)[TILES] in (
        "it has no long axis that stores are dense along", "no load is dense along another axis"
    )  # fmt: skip

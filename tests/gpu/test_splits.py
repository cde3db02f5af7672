# SPDX-License-Identifier: Apache-2.0
"""Long folds of few blocks: parts of them, then the fold of what parts give."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import REDUCTION, SOFTMAX
from tests.gpu.programs import check, program

from ingot.gpu.compiler import GpuKernel
from ingot.gpu.machine import machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.splits import PART
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.ir import LoopKernel
from ingot.kernel.verifier import verify_kernel

MACHINE = machine_of()

BLOCK, COLUMNS, THREAD = "a block per row", "columns", "a thread per point"


def check_split(
    body: str, strategies: tuple[str, ...], n: int = 0, tolerance: float = 0.0
) -> GpuKernel:
    """Check a fold that is cut in two stages of these strategies."""
    strategy = ", then ".join(dict.fromkeys(strategies))
    kernel = check(body, strategy, {"n": n}, tolerance=tolerance, seeds=(0, 1))
    assert len(kernel.launches) == 2
    return kernel


@pytest.mark.parametrize(("element", "op", "tolerance"), [
    ("f32", "add", 1e-4), ("s32", "add", 0.0), ("f32", "maximum", 0.0), ("bf16", "maximum", 0.0),
    ("f64", "add", 1e-11), ("pred", "and", 0.0), ("s8", "add", 0.0),
])  # fmt: skip
def test_sum_of_everything(element: str, op: str, tolerance: float) -> None:
    body = REDUCTION.format(type=element, dims="20011", left="", over=0, op=op)
    kernel = check_split(body, (BLOCK, THREAD), tolerance=tolerance)
    assert kernel.launches[0].blocks == 5


def test_many_parts_are_folded_by_threads_together() -> None:
    body = REDUCTION.format(type="s32", dims="300007", left="", over=0, op="add")
    kernel = check_split(body, (BLOCK, "a warp per row"))
    assert kernel.launches[0].blocks == 74


@pytest.mark.parametrize("n", [0, 1, 4096, 4097, 20_011])
def test_rows_of_symbolic_length(n: int) -> None:
    body = REDUCTION.format(type="s32", dims="2,?n", left="2", over=1, op="add")
    check_split(body, (BLOCK, BLOCK), n)


@pytest.mark.parametrize(("dims", "left", "over", "strategies"), [
    ("2003,33", "33", "0", (COLUMNS, THREAD)), ("2003,5", "5", "0", (COLUMNS, THREAD)),
    ("12000,33", "33", "0", (COLUMNS, COLUMNS)), ("?n,5", "5", "0", (COLUMNS, COLUMNS)),
    ("40,3,700", "3", "0,2", (BLOCK, THREAD)), ("3,40,3000", "40", "0,2", (BLOCK, THREAD)),
])  # fmt: skip
def test_which_axis_is_cut(dims: str, left: str, over: str, strategies: tuple[str, str]) -> None:
    body = REDUCTION.format(type="s32", dims=dims, left=left, over=over, op="add")
    check_split(body, strategies, 2003)


def test_short_folds_are_not_cut() -> None:
    body = REDUCTION.format(type="s32", dims="40,3000", left=40, over=1, op="add")
    assert len(check(body, BLOCK, seeds=(0,)).launches) == 1


@pytest.mark.parametrize("n", ["9001", "?n"])
def test_argmax(n: str) -> None:
    """Elements are few, so that the first of equal ones is in any part."""
    body = f"""p = f32[1,{n}] parameter(0)
      x = f32[1,{n}] floor(p)
      i = s32[1,{n}] iota(), iota_dimension=1
      low = f32[] constant(-inf)
      first = s32[] constant(0)
      ROOT r = (f32[1], s32[1]) reduce(x, i, low, first), dimensions={{1}}, to_apply=argmax"""
    check_split(body, (BLOCK, THREAD), 9001)


def test_what_follows_the_fold_is_in_the_second_stage() -> None:
    body = """x = f32[20011] parameter(0)
      y = f32[] parameter(1)
      s = f32[20011] multiply(x, x)
      zero = f32[] constant(0)
      t = f32[] reduce(s, zero), dimensions={0}, to_apply=add_f32
      q = f32[] sqrt(t)
      ROOT r = f32[] multiply(q, y)"""
    check_split(body, (BLOCK, THREAD), tolerance=1e-4)


def test_rows_that_are_read_again_are_not_cut() -> None:
    body = SOFTMAX.format(rows=2, length=9000)
    assert len(check(body, BLOCK, tolerance=1e-5, seeds=(0,)).launches) == 1


@pytest.mark.parametrize("length", [20_480, 20_011])
def test_both_halves_are_kernels(length: int) -> None:
    body = REDUCTION.format(type="f32", dims=length, left="", over=0, op="add")
    parts, whole = (stage.kernel for stage in schedule_kernel(program(body).kernel, MACHINE).stages)
    assert isinstance(parts, LoopKernel)
    verify_kernel(whole)
    # The last of several parts that are not of equal length is shorter.
    (axis,) = parts.passes[0].axes
    assert isinstance(axis.extent, Dim) == (length % 4096 != 0)
    found = [dim.evaluate(axis.extent, {PART: part}) for part in range(5)]
    assert found == [4096, 4096, 4096, 4096, length - 4 * 4096]

# SPDX-License-Identifier: Apache-2.0
"""A thread per point: elementwise ops, moves, gathers, scans, updates in order."""

from __future__ import annotations

import pytest
from tests.gpu.kernels import ARGMAX_SCATTER, CUMULATIVE_SUM, ELEMENTWISE, GATHER, SCATTER
from tests.gpu.programs import check

THREADS, IN_ORDER, SCAN = "a thread per point", "in order", "a warp per scan"


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_elementwise_with_broadcast_and_math(rows: int) -> None:
    check(ELEMENTWISE.format(rows=rows), THREADS, tolerance=1e-6)


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16", "s32", "s64", "s8"])
def test_element_types(element: str) -> None:
    body = f"""x = {element}[301] parameter(0)
      y = {element}[301] parameter(1)
      m = {element}[301] multiply(x, y)
      ROOT r = {element}[301] maximum(m, x)"""
    check(body, THREADS)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_math_of_other_types(element: str) -> None:
    body = f"""x = {element}[37] parameter(0)
      s = {element}[37] sine(x)
      ROOT r = {element}[37] atanh(s)"""
    check(body, THREADS, tolerance={"f16": 2e-3, "bf16": 2e-2, "f64": 1e-12}[element])


def test_predicates() -> None:
    body = """x = f32[65] parameter(0)
      p = pred[65] parameter(1)
      zero = f32[] constant(0)
      z = f32[65] broadcast(zero), dimensions={}
      c = pred[65] compare(x, z), direction=LT
      ROOT r = pred[65] xor(p, c)"""
    check(body, THREADS)


@pytest.mark.parametrize("n", [0, 1, 5, 257])
def test_symbolic_sizes(n: int) -> None:
    body = """x = f32[?n,3] parameter(0)
      y = f32[?n,3] parameter(1)
      ROOT r = f32[?n,3] subtract(x, y)"""
    check(body, THREADS, {"n": n})


def test_masked_loads_of_a_pad() -> None:
    body = """x = f32[5,9] parameter(0)
      z = f32[] constant(2)
      ROOT p = f32[8,13] pad(x, z), padding=1_2x3_1"""
    check(body, THREADS)


def test_reverse_and_concatenate() -> None:
    body = """x = s32[5,4] parameter(0)
      y = s32[5,7] parameter(1)
      v = s32[5,4] reverse(x), dimensions={1}
      ROOT c = s32[5,11] concatenate(v, y), dimensions={1}"""
    check(body, THREADS)


def test_gather_of_rows() -> None:
    check(GATHER, THREADS, below=60)


@pytest.mark.parametrize(("length", "strategy"), [
    (1, None), (31, THREADS), (32, SCAN), (40, SCAN), (257, SCAN),
])  # fmt: skip
def test_cumulative_sum(length: int, strategy: str | None) -> None:
    body = CUMULATIVE_SUM.format(length=length, before=length - 1)
    check(body, strategy or THREADS, tolerance=1e-5)


@pytest.mark.parametrize(("element", "op", "init", "strategy"), [
    ("s32", "add", "0", SCAN), ("s64", "maximum", "-9223372036854775808", SCAN),
    ("f64", "multiply", "1", SCAN), ("bf16", "maximum", "-inf", SCAN),
    ("bf16", "add", "0", THREADS), ("pred", "and", "true", SCAN), ("s8", "add", "0", SCAN),
])  # fmt: skip
def test_scans_of_element_types(element: str, op: str, init: str, strategy: str) -> None:
    body = f"""x = {element}[5,70] parameter(0)
      i = {element}[] constant({init})
      ROOT r = {element}[5,70] reduce-window(x, i), window={{size=1x70 pad=0_0x69_0}},
        to_apply={op}_{element}"""
    check(body, strategy, tolerance=1e-9 if element == "f64" else 0.1 if op == "add" else 0)


def test_scan_of_a_column_has_a_thread() -> None:
    body = """x = s32[70,5] parameter(0)
      zero = s32[] constant(0)
      ROOT r = s32[70,5] reduce-window(x, zero), window={size=70x1 pad=69_0x0_0},
        to_apply=add_s32"""
    check(body, THREADS)


def test_window_of_a_pooling() -> None:
    body = """x = f32[2,9,9,3] parameter(0)
      low = f32[] constant(-inf)
      ROOT r = f32[2,9,9,3] reduce-window(x, low), window={size=1x3x3x1 pad=0_0x1_1x1_1x0_0},
        to_apply=maximum_f32"""
    check(body, THREADS)


@pytest.mark.parametrize("element", ["f32", "s32", "bf16"])
@pytest.mark.parametrize("op", ["add", "maximum", "subtract"])
def test_scatter_of_elements_is_in_order(element: str, op: str) -> None:
    # To the bit: the updates of one element come in order, whatever the order of threads.
    kernel = check(SCATTER.format(type=element, n=13, count=67, op=op), IN_ORDER)
    assert (kernel.launches[0].blocks, kernel.launches[0].threads) == (4, 256)


def test_scatter_of_rows_has_a_thread_per_column() -> None:
    body = """x = f32[11,40] parameter(0)
      i = s32[30,1] parameter(1)
      u = f32[30,40] parameter(2)
      ROOT r = f32[11,40] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=subtract_f32"""
    kernel = check(body, IN_ORDER)
    assert kernel.launches[0].blocks == 1


def test_scatter_of_windows_that_overlap() -> None:
    body = """x = f32[200] parameter(0)
      i = s32[9,1] parameter(1)
      u = f32[9,50] parameter(2)
      ROOT r = f32[200] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=subtract_f32"""
    check(body, IN_ORDER, below=160)


def test_scatter_of_two_operands() -> None:
    check(ARGMAX_SCATTER.format(count=40), IN_ORDER, below=9)


def test_dynamic_update_slice() -> None:
    body = """x = f32[7,9] parameter(0)
      u = f32[3,4] parameter(1)
      i = s32[] parameter(2)
      ROOT r = f32[7,9] dynamic-update-slice(x, u, i, i)"""
    check(body, THREADS, below=8)

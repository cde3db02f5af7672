# SPDX-License-Identifier: Apache-2.0
"""StableHLO ops whose sizes, starts and paddings are computed from data: results of bounded types.

XLA's translator takes `dynamic_reshape` and static types only; the others are held against NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.support.diagnostics import UnsupportedError

Array = np.ndarray[Any, Any]
INT = "tensor<1xi32>"


def _run(signature: str, op: str, *inputs: Any) -> Array:
    """Return the result of one op on the CPU, which is the evaluator's."""
    parameters, result = signature.split(" -> ")
    module = ingot.parse_stablehlo(
        f"func.func @main({parameters}) -> {result} {{ %r = {op} return %r : {result} }}"
    )
    arguments = [np.asarray(value) for value in inputs]
    return agrees(module, arguments).results[0]


@pytest.mark.parametrize("rows", [0, 1, 3, 4])
def test_sizes_of_a_result(rows: int) -> None:
    row = np.arange(3, dtype=np.float32)
    bounded = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
    got = _run(
        f"%x: tensor<3xf32>, %s: tensor<2xi32> -> {bounded}",
        "stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] : "
        f"(tensor<3xf32>, tensor<2xi32>) -> {bounded}",
        row,
        np.int32([rows, 3]),
    )
    np.testing.assert_array_equal(got, np.tile(row, (rows, 1)))
    got = _run(
        f"%s: tensor<2xi32> -> {bounded}",
        f"stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> {bounded}",
        np.int32([rows, 3]),
    )
    np.testing.assert_array_equal(got, np.repeat(np.arange(rows), 3).reshape(rows, 3))
    x = np.arange(12, dtype=np.float32)
    got = _run(
        f"%x: tensor<12xf32>, %s: tensor<2xi32> -> {bounded}",
        f"stablehlo.dynamic_reshape %x, %s : (tensor<12xf32>, tensor<2xi32>) -> {bounded}",
        x,
        np.int32([rows, 3]),
    )
    np.testing.assert_array_equal(got, x[: 3 * rows].reshape(rows, 3))


@pytest.mark.parametrize(("low", "high", "gap"), [(1, 2, 0), (0, 0, 1), (-1, 3, 2), (2, -1, 0)])
def test_pad(low: int, high: int, gap: int) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    spread = np.full((2 * gap + 3, 2), 9, np.float32)
    spread[:: gap + 1] = x
    want = np.pad(spread, ((max(low, 0), max(high, 0)), (0, 0)), constant_values=9)
    want = want[max(-low, 0) : len(want) - max(-high, 0)]
    amounts = [np.int32([amount, 0]) for amount in (low, high, gap)]
    for result in ("tensor<?x2xf32, #stablehlo.bounds<10, ?>>", f"tensor<{len(want)}x2xf32>"):
        two = "tensor<2xi32>"
        got = _run(
            f"%x: tensor<3x2xf32>, %v: tensor<f32>, %l: {two}, %h: {two}, %i: {two} -> {result}",
            "stablehlo.dynamic_pad %x, %v, %l, %h, %i : "
            f"(tensor<3x2xf32>, tensor<f32>, {two}, {two}, {two}) -> {result}",
            x,
            np.float32(9),
            *amounts,
        )
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("start", "limit", "stride"), [(1, 5, 1), (0, 6, 2), (2, 2, 1), (1, 6, 4)])
def test_slice(start: int, limit: int, stride: int) -> None:
    x = np.arange(6, dtype=np.float32)
    want = x[start:limit:stride]
    for result in ("tensor<?xf32, #stablehlo.bounds<6>>", f"tensor<{len(want)}xf32>"):
        got = _run(
            f"%x: tensor<6xf32>, %a: {INT}, %b: {INT}, %c: {INT} -> {result}",
            "stablehlo.real_dynamic_slice %x, %a, %b, %c : "
            f"(tensor<6xf32>, {INT}, {INT}, {INT}) -> {result}",
            x,
            *(np.int32([number]) for number in (start, limit, stride)),
        )
        np.testing.assert_array_equal(got, want)


def test_gather() -> None:
    x = np.arange(18, dtype=np.float32).reshape(6, 3)
    got = _run(
        "%x: tensor<6x3xf32>, %i: tensor<2xi32>, %s: tensor<2xi32> -> tensor<2x3xf32>",
        '"stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>, indices_are_sorted = false}> : "
        "(tensor<6x3xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>",
        x,
        np.int32([4, 1]),
        np.int32([1, 3]),
    )
    np.testing.assert_array_equal(got, x[[4, 1]])


@pytest.mark.parametrize(("low", "spread"), [(0, 1), (2, 1), (1, 2)])
def test_convolution(low: int, spread: int) -> None:
    x = np.arange(1, 7, dtype=np.float32)
    taps = np.float32([1, 10])
    dense = np.zeros(5 * spread + 1, np.float32)
    dense[::spread] = x
    wide = np.concatenate([np.zeros(low, np.float32), dense])
    want = wide[:-1] * taps[0] + wide[1:] * taps[1]
    result = f"tensor<1x{len(want)}x1xf32>"
    got = _run(
        f"%x: tensor<1x6x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi32> -> {result}",
        '"stablehlo.dynamic_conv"(%x, %k, %p) <{dimension_numbers = '
        "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, "
        f"lhs_dilation = array<i64: {spread}>, "
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : "
        f"(tensor<1x6x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> {result}",
        x.reshape(1, 6, 1),
        taps.reshape(2, 1, 1),
        np.int32([[low, 0]]),
    )
    np.testing.assert_allclose(got.reshape(-1), want)


def test_a_size_without_a_bound_is_refused_by_name() -> None:
    text = """
        func.func @main(%s: tensor<1xi32>) -> tensor<?xf32> {
          %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
          return %r : tensor<?xf32>
        }"""
    with pytest.raises(UnsupportedError, match="dynamic_iota: the sizes of its result") as caught:
        ingot.parse_stablehlo(text)
    assert "#stablehlo.bounds<8>" in caught.value.diagnostic.hint

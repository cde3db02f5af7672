# SPDX-License-Identifier: Apache-2.0
"""`ragged-dot` of many rows: the loop over tiles beside the evaluator."""

from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.passes.expand import ragged_tiles

GROUPS = 3
SIZES = ([2, 0, 3], [0, 0, 0], [7, 0, 0], [9, 9, 9], [-9, 11, -3], [2, -4, 5])
"""Of seven rows: rows of no group, groups of no rows, sizes beyond the rows, and negative ones."""


def rows_text(rows: object, element: str = "f32", depth: int = 5, width: int = 4) -> str:
    return f"""HloModule rows
ENTRY main {{
  x = {element}[{rows},{depth}] parameter(0)
  r = {element}[{GROUPS},{depth},{width}] parameter(1)
  g = s32[{GROUPS}] parameter(2)
  ROOT y = {element}[{rows},{width}] ragged-dot(x, r, g), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}
}}"""


def contraction_text(rows: object, element: str = "f32", depth: int = 5, width: int = 4) -> str:
    return f"""HloModule contraction
ENTRY main {{
  x = {element}[{rows},{depth}] parameter(0)
  r = {element}[{rows},{width}] parameter(1)
  g = s32[{GROUPS}] parameter(2)
  ROOT y = {element}[{GROUPS},{depth},{width}] ragged-dot(x, r, g), lhs_contracting_dims={{0}},
    rhs_contracting_dims={{0}}, lhs_ragged_dims={{0}}
}}"""


BATCH = """HloModule batch
ENTRY main {
  x = f32[2,9,5] parameter(0)
  r = f32[2,5,3,4] parameter(1)
  g = s32[3] parameter(2)
  ROOT y = f32[2,9,4] ragged-dot(x, r, g), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={2}
}"""


def assert_tiled_like_evaluator(text: str, *args: np.ndarray, tolerance: float = 1e-5) -> None:
    """Compile with tiles however small the product is; compare with the evaluator."""
    ingot.clear_caches()
    with patch.object(ragged_tiles, "_WORTH_A_LOOP", 0):
        executable = ingot.compile(ingot.parse_hlo(text))
    assert "while(" in executable.as_text("hlo")
    want = np.asarray(ingot.evaluate(ingot.parse_hlo(text), *args), np.float64)
    got = np.asarray(executable(*args), np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 131])
@pytest.mark.parametrize("sizes", SIZES)
def test_tiles_are_the_products_of_their_groups(sizes, rows, is_symbolic):
    x, weights, y = numbers(rows, 5), numbers(GROUPS, 5, 4), numbers(rows, 4)
    # Neither may reach rows of other groups.
    x[rows // 2, 0], weights[1, 0, 0] = np.inf, np.nan
    groups = np.array(sizes, np.int32) * max(rows // 7, 1)
    shown = "?m" if is_symbolic else rows
    assert_tiled_like_evaluator(rows_text(shown), x, weights, groups)
    assert_tiled_like_evaluator(contraction_text(shown), x, y, groups)


def test_batches_and_groups_in_the_middle():
    groups = np.array([4, 0, 3], np.int32)
    assert_tiled_like_evaluator(BATCH, numbers(2, 9, 5), numbers(2, 5, 3, 4), groups)


@pytest.mark.parametrize("element", ["f64", "f16", "s32", "u8"])
def test_other_element_types(element):
    dtype = ingot.parse_hlo(rows_text(9, element)).entry.parameters[0].shape.dtype.numpy
    x, weights = (np.abs(8 * numbers(*shape)).astype(dtype) for shape in ((9, 5), (3, 5, 4)))
    groups = np.array([4, 1, 3], np.int32)
    tolerance = 2e-3 if element == "f16" else 1e-5
    assert_tiled_like_evaluator(rows_text(9, element), x, weights, groups, tolerance=tolerance)


def test_a_group_without_rows_is_not_read():
    """A product of masked operands makes a NaN of each row, as 0 * inf is one."""
    text = rows_text(4096, depth=64, width=32)
    weights = np.full((GROUPS, 64, 32), np.inf, np.float32)
    weights[1] = 1.0
    groups = np.array([0, 4096, 0], np.int32)
    got = ingot.compile(text)(np.ones((4096, 64), np.float32), weights, groups)
    assert np.array_equal(np.asarray(got), np.full((4096, 32), 64.0, np.float32))


def test_groups_of_few_rows_are_a_loop_of_library_products():
    """A trip reads one group's matrix where it lies in the stack."""
    executable = ingot.compile(rows_text(16, "bf16", depth=512, width=256))
    products = [kernel for kernel in executable.kernels if "dot" in kernel.opcodes]
    assert {product.strategy for product in products} == {"product"}


def test_tiles_have_several_sizes():
    """A trip takes the smallest that holds its group's rows."""
    executable = ingot.compile(rows_text(48, depth=256, width=128))
    flops = [kernel.flops for kernel in executable.kernels if "dot" in kernel.opcodes]
    assert [round(each / (2 * 256 * 128)) for each in sorted(flops)] == [8, 16, 24, 32]


def test_groups_of_every_size_of_tile():
    x, weights = numbers(48, 256), numbers(GROUPS, 256, 128)
    x[20, 3], weights[1, 5, 7] = np.nan, np.inf
    text = rows_text(48, depth=256, width=128)
    executable, module = ingot.compile(text), ingot.parse_hlo(text)
    for counts in ([33, 8, 7], [0, 48, 0], [1, 16, 31], [17, 9, 22], [40, 1, 0]):
        groups = np.array(counts, np.int32)
        want = np.asarray(ingot.evaluate(module, x, weights, groups))
        got = np.asarray(executable(x, weights, groups))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_products_of_first_tiles_are_written_once(element):
    """One product has all groups; the loop, for further tiles, has the other."""
    text = contraction_text(600, element, 64, 96)
    executable = ingot.compile(text)
    flops = [kernel.flops for kernel in executable.kernels if "dot" in kernel.opcodes]
    assert max(flops) >= (GROUPS - 0.1) * min(flops)
    kind = ml_dtypes.bfloat16 if element == "bf16" else np.float32
    x, y = numbers(600, 64).astype(kind), numbers(600, 96).astype(kind)
    x[7, 0], y[599, 3] = np.inf, np.nan
    for counts in ([250, 0, 350], [200, 200, 200], [3, 590, 2], [600, 0, 0]):
        groups = np.array(counts, np.int32)
        wide = [array.astype(np.float32) for array in (x, y)]
        want = ingot.evaluate(ingot.parse_hlo(contraction_text(600, "f32", 64, 96)), *wide, groups)
        want = np.asarray(want)
        got = np.asarray(executable(x, y, groups))
        if element == "bf16":  # summed in f32, rounded once
            other = want.astype(kind)
            assert np.mean((got == other) | (np.isnan(got) & np.isnan(other))) > 0.99
        else:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_rows_of_a_narrow_type_are_rounded_once():
    x, weights = numbers(64, 96), numbers(GROUPS, 96, 32)
    sizes = np.array([30, 4, 30], np.int32)
    narrow = [array.astype(ml_dtypes.bfloat16) for array in (x, weights)]
    got = np.asarray(ingot.compile(rows_text(64, "bf16", 96, 32))(*narrow, sizes))
    wide = [array.astype(np.float32) for array in narrow]
    want = np.asarray(ingot.compile(rows_text(64, "f32", 96, 32))(*wide, sizes))
    assert np.mean(got == want.astype(ml_dtypes.bfloat16)) > 0.99


def test_transposes_of_stacks_are_read_in_place():
    """The gradient of the rows reads the transpose of one group's matrix, not of all of them."""
    text = """HloModule gradient
ENTRY main {
  x = bf16[64,48] parameter(0)
  w = bf16[3,96,48] parameter(1)
  g = s32[3] parameter(2)
  t = bf16[3,48,96] transpose(w), dimensions={0,2,1}
  y = bf16[64,48] parameter(3)
  rows = bf16[48,64] transpose(x), dimensions={1,0}
  a = bf16[64,96] ragged-dot(x, t, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
    lhs_ragged_dims={0}, rhs_group_dims={0}
  b = bf16[3,48,48] ragged-dot(rows, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    lhs_ragged_dims={1}
  ROOT both = (bf16[64,96], bf16[3,48,48]) tuple(a, b)
}"""
    with patch.object(ragged_tiles, "_WORTH_A_LOOP", 0):
        executable = ingot.compile(text)
    assert "transpose(" not in executable.as_text("hlo")
    x, w, y = (
        numbers(*dims).astype(ml_dtypes.bfloat16) for dims in ((64, 48), (3, 96, 48), (64, 48))
    )
    sizes = np.array([30, 4, 30], np.int32)
    got = executable(x, w, sizes, y)
    want = ingot.evaluate(ingot.parse_hlo(text), x, w, sizes, y)
    for one, other in zip(got, want, strict=True):
        one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)

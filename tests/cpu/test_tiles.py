# SPDX-License-Identifier: Apache-2.0
"""Kernels that read across their vector axis: square tiles and what is left over at the edges."""

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.llvm.target import TargetSpec, host_levels

DTYPES = {"f32": np.float32, "f64": np.float64, "s8": np.int8, "bf16": ml_dtypes.bfloat16}
SHAPES = [
    ((16, 16), (1, 0)),
    ((33, 70), (1, 0)),
    ((15, 100), (1, 0)),
    ((20, 30, 40), (2, 1, 0)),
    ((2, 17, 3, 35), (0, 3, 1, 2)),
    ((3, 16, 5, 64), (0, 3, 1, 2)),
]


def module(dtype: str, dims: list[object], permutation: tuple[int, ...]) -> ingot.Module:
    """Return transpose(x) * z + transpose(y): two tiles and a load along the vector axis."""
    before = f"{dtype}[{','.join(map(str, dims))}]"
    after = f"{dtype}[{','.join(str(dims[place]) for place in permutation)}]"
    how = f"dimensions={{{','.join(map(str, permutation))}}}"
    return ingot.parse_hlo(f"""HloModule m
ENTRY main {{
  x = {before} parameter(0)
  y = {before} parameter(1)
  z = {after} parameter(2)
  a = {after} transpose(x), {how}
  b = {after} transpose(y), {how}
  c = {after} multiply(a, z)
  ROOT d = {after} add(c, b)
}}
""")


def check(executable: object, dtype: str, shape: tuple[int, ...], permutation: tuple[int, ...]):
    generator = np.random.default_rng(0)

    def some(dims: object) -> np.ndarray:
        return (generator.standard_normal(dims) * 5).astype(DTYPES[dtype])

    x, y, z = some(shape), some(shape), some([shape[place] for place in permutation])
    expected = x.transpose(permutation) * z + y.transpose(permutation)
    got = executable(x, y, z)
    tolerance = 2e-2 if dtype == "bf16" else 1e-5
    np.testing.assert_allclose(
        np.asarray(got, np.float64), np.asarray(expected, np.float64), tolerance, tolerance
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "permutation"), SHAPES)
def test_transposes_of_any_size(dtype: str, shape: tuple[int, ...], permutation: tuple[int, ...]):
    check(ingot.compile(module(dtype, list(shape), permutation)), dtype, shape, permutation)


def test_transpose_of_symbolic_sizes():
    executable = ingot.compile(module("f32", ["?m", "?n"], (1, 0)))
    for shape in ((1, 1), (16, 16), (70, 33), (5, 130)):
        check(executable, "f32", shape, (1, 0))


def test_only_kernels_that_read_across_turn_tiles_around():
    for permutation, turned in (((1, 0), True), ((0, 1), False)):
        executable = ingot.compile(module("f32", [64, 64], permutation))
        assert ("shufflevector" in executable.as_text("llvm")) is turned


@pytest.mark.parametrize("shape", [(16, 17), (130, 31), (3, 9, 200)])
def test_last_tiles_begin_sooner(shape: tuple[int, ...]) -> None:
    check_alone("f32", shape, host_levels()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("dtype", ["f64", "bf16", "s8", "f32"])
@pytest.mark.parametrize(
    "shape", [(8, 8), (8, 500), (500, 9), (16, 16), (15, 15), (129, 257), (5, 33, 70), (300, 2)]
)
def test_transposes_alone(shape: tuple[int, ...], dtype: str, level: str) -> None:
    check_alone(dtype, shape, level)


def check_alone(dtype: str, shape: tuple[int, ...], level: str) -> None:
    """Compare a kernel that reads nothing but what it turns around."""
    *outer, rows, columns = shape
    order = (*range(len(outer)), len(outer) + 1, len(outer))
    before, after = (",".join(map(str, dims)) for dims in (shape, (*outer, columns, rows)))
    text = f"""HloModule m
ENTRY main {{
  x = {dtype}[{before}] parameter(0)
  a = {dtype}[{after}] transpose(x), dimensions={{{",".join(map(str, order))}}}
  ROOT b = {dtype}[{after}] negate(a)
}}
"""
    x = (np.arange(np.prod(shape)).reshape(shape) % 100).astype(DTYPES[dtype])
    found = ingot.compile(ingot.parse_hlo(text), target=TargetSpec.host(level))(x)
    np.testing.assert_array_equal(np.asarray(found), -x.transpose(order))

# SPDX-License-Identifier: Apache-2.0
"""Batches of tiny matrices are factored and solved in kernels over the batch, as LAPACK would."""

import numpy as np
import pytest

import ingot

BATCH = 40


def compiled(text):
    return ingot.compile(ingot.parse_hlo(f"HloModule m\n\nENTRY e {{\n{text}\n}}\n"))


def calls_lapack(executable):
    return "lapack_" in executable.as_text("hlo")


def matrices(generator, size, name="f32"):
    found = generator.standard_normal((BATCH, size, size)) + 4 * np.eye(size)
    return found.astype(np.float32 if name == "f32" else np.float64)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_lu_with_exchanged_rows(size, name, generator):
    shape = f"{name}[{BATCH},{size},{size}]"
    rows = f"s32[{BATCH},{size}]"
    executable = compiled(f"""\
  a = {shape} parameter(0)
  ROOT lu = ({shape}, {rows}, {rows}) custom-call(a), custom_call_target="LuDecomposition"
""")
    a = matrices(generator, size, name) - (4 * np.eye(size)).astype(name.replace("f", "float"))
    # No pivot in a column: nothing is divided.
    a[3] = 0
    lu, _, order = executable(a)
    lower, upper = np.tril(lu, -1) + np.eye(size), np.triu(lu)
    exchanged = np.take_along_axis(a, order[..., None].astype(int), 1)
    np.testing.assert_allclose(lower @ upper, exchanged, atol=1e-5 if name == "f32" else 1e-13)
    assert np.abs(np.tril(lu, -1)).max(initial=0) <= 1
    np.testing.assert_array_equal(lu[3], 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(size, lower, generator):
    shape = f"f32[{BATCH},{size},{size}]"
    executable = compiled(f"""\
  a = {shape} parameter(0)
  ROOT c = {shape} cholesky(a), lower={str(lower).lower()}
""")
    assert not calls_lapack(executable)
    a = matrices(generator, size)
    a = a @ a.swapaxes(1, 2)
    expected = np.linalg.cholesky(a)
    a[5] = -a[5]
    found = executable(a)
    assert np.isnan(found[5]).all()
    expected = expected if lower else expected.swapaxes(1, 2)
    others = np.arange(BATCH) != 5
    np.testing.assert_allclose(found[others], expected[others], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", ["NO_TRANSPOSE", "TRANSPOSE"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(left, lower, turned, unit, generator):
    sides = f"f32[{BATCH},3,5]" if left else f"f32[{BATCH},5,3]"
    flags = f"left_side={left}, lower={lower}, unit_diagonal={unit}".lower()
    executable = compiled(f"""\
  a = f32[{BATCH},3,3] parameter(0)
  b = {sides} parameter(1)
  ROOT x = {sides} triangular-solve(a, b), {flags}, transpose_a={turned}
""")
    assert not calls_lapack(executable)
    a = matrices(generator, 3)
    b = generator.standard_normal((BATCH, 3, 5) if left else (BATCH, 5, 3)).astype(np.float32)
    used = np.tril(a) if lower else np.triu(a)
    if unit:
        used[:, range(3), range(3)] = 1
    used = used if turned == "NO_TRANSPOSE" else used.swapaxes(1, 2)
    x = executable(a, b)
    np.testing.assert_allclose(used @ x if left else x @ used, b, atol=1e-3)


def test_larger_or_fewer_matrices_stay_with_lapack():
    for shape in (f"f32[{BATCH},5,5]", "f32[2,3,3]"):
        text = f"a = {shape} parameter(0)\n  ROOT c = {shape} cholesky(a), lower=true"
        assert calls_lapack(compiled(text))


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", ["NO_TRANSPOSE", "TRANSPOSE"])
def test_one_matrix_and_many_right_hand_sides(size, left, lower, turned, generator):
    for name, sides, calls in (("f32", 521, False), ("f64", 512, False), ("f32", 511, True)):
        shape = f"{name}[{size},{sides}]" if left else f"{name}[{sides},{size}]"
        executable = compiled(f"""\
  a = {name}[{size},{size}] parameter(0)
  b = {shape} parameter(1)
  ROOT x = {shape} triangular-solve(a, b), left_side={str(left).lower()}, \
lower={str(lower).lower()}, transpose_a={turned}
""")
        assert calls_lapack(executable) == calls
        a = matrices(generator, size, name)[0]
        b = generator.standard_normal((size, sides) if left else (sides, size)).astype(a.dtype)
        b[0, 0], b[-1, -1] = np.nan, 0
        found = executable(a, b)
        triangle = np.tril(a) if lower else np.triu(a)
        triangle = triangle if turned == "NO_TRANSPOSE" else triangle.T
        given = np.nan_to_num(b)
        whole = np.linalg.solve(triangle, given) if left else np.linalg.solve(triangle.T, given.T).T
        side = (slice(None), slice(1, None)) if left else slice(1, None)
        tolerance = 1e-4 if name == "f32" else 1e-12
        np.testing.assert_allclose(found[side], whole[side], rtol=tolerance, atol=tolerance)
        assert np.isnan(found[:, 0] if left else found[0]).any()


@pytest.mark.parametrize("value", [0.0, np.inf, np.nan])
def test_a_pivot_that_is_no_number_is_as_in_lapack(value, generator):
    text = """\
  a = f32[3,3] parameter(0)
  b = f32[3,SIDES] parameter(1)
  ROOT x = f32[3,SIDES] triangular-solve(a, b), left_side=true, lower=true, \
transpose_a=NO_TRANSPOSE
"""
    a = matrices(generator, 3)[0]
    a[1, 1] = value
    b = generator.standard_normal((3, 600)).astype(np.float32)
    found = compiled(text.replace("SIDES", "600"))(a, b)
    wanted = compiled(text.replace("SIDES", "300"))
    parts = [wanted(a, np.ascontiguousarray(part)) for part in np.split(b, 2, axis=1)]
    expected = np.concatenate(parts, axis=1)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))

# SPDX-License-Identifier: Apache-2.0
"""Expensive functions that are broadcast: kernels of their own, unless they follow a row's fold."""

import numpy as np
import pytest

import ingot

BODY = """\
HloModule spread

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[{dims}] parameter(0)
  s = f32[{rows}] parameter(1)
  zero = f32[] constant(0)
  {value}
  spread = f32[{dims}] broadcast(e), dimensions={{{axis}}}
  product = f32[{dims}] multiply(x, spread)
  {end}
}}
"""
FOLD = "ROOT r = f32[{kept}] reduce(product, zero), dimensions={{{dim}}}, to_apply=add"


def _program(rows: int, columns: int, axis: int, dim: int | None, value: str):
    sizes = [rows, columns] if axis == 0 else [columns, rows]
    end = "ROOT r = f32[{dims}] copy(product)" if dim is None else FOLD
    dims = ",".join(map(str, sizes))
    end = end.format(dims=dims, dim=dim, kept=sizes[1 - (dim or 0)])
    return ingot.parse_hlo(BODY.format(dims=dims, rows=rows, axis=axis, value=value, end=end))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(740, 28), (128, 4), (129, 5)])
def test_computed_once_for_each_row(rows, columns, axis, dim, generator):
    value = f"e = f32[{rows}] exponential(s)"
    executable = ingot.compile(_program(rows, columns, axis, dim, value))
    assert [kernel.opcodes for kernel in executable.kernels].count(("exponential",)) == 1
    shape = (rows, columns) if axis == 0 else (columns, rows)
    x, s = generator.random(shape, np.float32), generator.random(rows, np.float32)
    spread = np.exp(s.astype(np.float64))
    wanted = x * (spread[:, None] if axis == 0 else spread)
    found = executable(x, s)
    np.testing.assert_allclose(found, wanted if dim is None else wanted.sum(dim), rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(127, 28), (740, 3)])
def test_few_rows_or_columns_stay(rows, columns):
    value = f"e = f32[{rows}] exponential(s)"
    executable = ingot.compile(_program(rows, columns, 0, None, value))
    assert len(executable.kernels) == 1


def test_what_follows_the_fold_of_a_row_stays():
    fold = "f = f32[740] reduce(x, zero), dimensions={1}, to_apply=add\n"
    value = fold + "  g = f32[740] add(f, s)\n  e = f32[740] exponential(g)"
    executable = ingot.compile(_program(740, 28, 0, None, value))
    assert len(executable.kernels) == 1

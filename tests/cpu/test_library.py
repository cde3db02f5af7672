# SPDX-License-Identifier: Apache-2.0
"""What `load_library` loads is all that common kernels need."""

import numpy as np
import pytest

import ingot
from ingot.client import load_library
from ingot.cpu.library import parts

JAX_ORDER = """\
order {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
{indices}
  zero = f32[] constant(0)
  nan = f32[] constant(nan)
  a_zero = pred[] compare(a, zero), direction=EQ
  a_one = f32[] select(a_zero, zero, a)
  a_nan = pred[] compare(a, a), direction=NE
  a_key = f32[] select(a_nan, nan, a_one)
  b_zero = pred[] compare(b, zero), direction=EQ
  b_one = f32[] select(b_zero, zero, b)
  b_nan = pred[] compare(b, b), direction=NE
  b_key = f32[] select(b_nan, nan, b_one)
  ROOT less = pred[] compare(a_key, b_key), direction=LT, type=TOTALORDER
}}
"""
INDICES = "  i = s32[] parameter(2)\n  j = s32[] parameter(3)"
CHOICE = """\
choice {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  wins = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  either = pred[] or(wins, nan)
  value = f32[] select(either, a, b)
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  both = pred[] and(same, first)
  stays = pred[] or(either, both)
  place = s32[] select(stays, i, j)
  ROOT pair = (f32[], s32[]) tuple(value, place)
}
"""
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
PROGRAMS = {
    "sort": JAX_ORDER.format(indices="") + "ENTRY main { x = f32[5,300] parameter(0) "
    "ROOT y = f32[5,300] sort(x), dimensions={1}, is_stable=true, to_apply=order }",
    "argsort": JAX_ORDER.format(indices=INDICES)
    + "ENTRY main { x = f32[5,300] parameter(0) i = s32[5,300] parameter(1) "
    "ROOT y = (f32[5,300], s32[5,300]) sort(x, i), dimensions={1}, is_stable=true, "
    "to_apply=order }",
    "top k": "ENTRY main { x = f32[5,300] parameter(0) "
    "ROOT y = (f32[5,7], s32[5,7]) topk(x), k=7, largest=true }",
    "transform": "ENTRY main { x = c64[64,480] parameter(0) "
    "ROOT y = c64[64,480] fft(x), fft_type=FFT, fft_length={480} }",
    "real transform": "ENTRY main { x = f32[1048576] parameter(0) "
    "ROOT y = c64[524289] fft(x), fft_type=RFFT, fft_length={1048576} }",
    "product": "ENTRY main { x = f32[300,200] parameter(0) y = f32[200,500] parameter(1) "
    "ROOT z = f32[300,500] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "product with a vector left over": "ENTRY main { x = f32[512,512] parameter(0) "
    "y = f32[512,200] parameter(1) "
    "ROOT z = f32[512,200] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "arg max": CHOICE
    + "ENTRY main { x = f32[500,300] parameter(0) i = s32[500,300] iota(), iota_dimension=1 "
    "worst = f32[] constant(-inf) zero = s32[] constant(0) "
    "ROOT y = (f32[500], s32[500]) reduce(x, i, worst, zero), dimensions={1}, to_apply=choice }",
    "sum": ADD + "ENTRY main { x = f32[500,300] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[500] reduce(x, z), dimensions={1}, to_apply=add }",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_common_kernels_are_loaded(name):
    load_library()
    known = len(parts._loaded)
    executable = ingot.compile(ingot.parse_hlo(f"HloModule common\n\n{PROGRAMS[name]}"))
    kernels = executable.inspection.compiled.kernels.compiled.values()
    assert [kernel for kernel in kernels if kernel.shared and kernel.code is None]
    assert len(parts._loaded) == known


def test_parts_are_compiled_once(monkeypatch):
    module = ingot.parse_hlo(f"HloModule common\n\n{PROGRAMS['top k']}")
    first = ingot.compile(module)
    compiled = []
    monkeypatch.setattr(parts, "compile_named", lambda *args: compiled.append(args))
    second = ingot.compile(module)
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    np.testing.assert_array_equal(first(x)[0], second(x)[0])
    assert not compiled

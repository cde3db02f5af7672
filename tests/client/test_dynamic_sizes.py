# SPDX-License-Identifier: Apache-2.0
"""Parameters and results of dynamic size: arrays of any size up to the bound go in and come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.passes.expand.dynamic.boundary import pack_results
from ingot.support.diagnostics import ExecutionError, UnsupportedError
from ingot.tools.programs.inputs import random_inputs

ROWS = """HloModule rows
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[<=6,3] parameter(0)
  y = (s32[], f32[<=4]) parameter(1)
  k = s32[] get-tuple-element(y), index=0
  v = f32[<=4] get-tuple-element(y), index=1
  z = f32[] constant(0)
  sums = f32[<=6] reduce(x, z), dimensions={1}, to_apply=add
  all = f32[<=10] concatenate(sums, v), dimensions={0}
  ROOT r = (f32[<=10], (s32[], f32[<=6,3])) tuple(all, t)
}"""
ROWS = ROWS.replace("  ROOT r", "  t = (s32[], f32[<=6,3]) tuple(k, x)\n  ROOT r")
NEGATE = "HloModule m\nENTRY e { x = f32[<=5] parameter(0) ROOT r = f32[<=5] negate(x) }"


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(("rows", "more"), [(0, 0), (1, 4), (4, 1), (6, 3)])
def test_any_size_goes_in_and_comes_out(rows: int, more: int) -> None:
    module = parse(ROWS)
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    v = np.full(more, 7, np.float32)
    want = _flat(evaluate(module, [x, (np.int32(9), v)]))
    got = ingot.compile(module)(x, np.int32(9), v)
    assert [leaf.shape for leaf in got] == [(rows + more,), (), (rows, 3)]
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_one_result_is_an_array() -> None:
    executable = ingot.compile(parse(NEGATE))
    np.testing.assert_array_equal(executable(np.float32([1, 2])), np.float32([-1, -2]))
    np.testing.assert_array_equal(executable([3.0]), np.float32([-3]))
    assert executable(np.float32([]), donate=[0]).shape == (0,)


def test_what_does_not_fit_is_refused() -> None:
    executable = ingot.compile(parse(NEGATE))
    with pytest.raises(ExecutionError, match="argument 0 has 6 elements, more than its bound 5"):
        executable(np.zeros(6, np.float32))
    with pytest.raises(ExecutionError):
        executable(np.zeros((2, 2), np.float32))
    with pytest.raises(ExecutionError):
        executable()


def test_random_inputs_have_sizes_up_to_the_bound() -> None:
    module = parse(NEGATE)
    sizes = {np.shape(random_inputs(module, seed)[0])[0] for seed in range(40)}
    assert sizes == set(range(6))


def test_hosts_of_pjrt_get_the_elements_first() -> None:
    text = (
        "HloModule m\nENTRY e { x = s32[2,5] parameter(0) n = s32[] parameter(1)\n"
        "d = s32[2,<=5] set-dimension-size(x, n), dimensions={1}\n"
        "ROOT r = (s32[2,<=5], s32[]) tuple(d, n) }"
    )
    module = parse(text)
    pack_results(module)
    found, _ = ingot.compile(module)(np.arange(10, dtype=np.int32).reshape(2, 5), np.int32(3))
    assert found.shape == (2, 5)
    assert found.reshape(-1)[:6].tolist() == [0, 1, 2, 5, 6, 7]
    with pytest.raises(UnsupportedError, match="no parameter of dynamic size"):
        pack_results(parse(NEGATE))


def test_loops_nest() -> None:
    module = parse("""HloModule m
less { s = (s32[], f32[<=4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(2) ROOT r = pred[] compare(i, k), direction=LT }
inner { s = (s32[], f32[<=4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(1) j = s32[] add(i, o) x = f32[<=4] get-tuple-element(s), index=1
  y = f32[<=4] add(x, x) ROOT r = (s32[], f32[<=4]) tuple(j, y) }
outer { s = (s32[], f32[<=4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(1) z = s32[] constant(0) j = s32[] add(i, o)
  x = f32[<=4] get-tuple-element(s), index=1 t = (s32[], f32[<=4]) tuple(z, x)
  w = (s32[], f32[<=4]) while(t), condition=less, body=inner
  y = f32[<=4] get-tuple-element(w), index=1 g = s32[] get-dimension-size(y), dimensions={0}
  h = s32[] subtract(g, o) c = f32[<=4] set-dimension-size(y, h), dimensions={0}
  ROOT r = (s32[], f32[<=4]) tuple(j, c) }
ENTRY e { x = f32[<=4] parameter(0) z = s32[] constant(0) t = (s32[], f32[<=4]) tuple(z, x)
  w = (s32[], f32[<=4]) while(t), condition=less, body=outer
  ROOT y = f32[<=4] get-tuple-element(w), index=1 }""")
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(evaluate(module, [x]), np.float32([16]))
    np.testing.assert_array_equal(ingot.compile(module)(x), np.float32([16]))


def test_a_program_that_computes_sizes_takes_and_gives_them_too() -> None:
    module = parse("""HloModule m
ENTRY e { x = f32[<=6] parameter(0) k = s32[] get-dimension-size(x), dimensions={0}
  n = pred[?n] custom-call(k), custom_call_target="ingot.size" i = s32[?n] iota(), iota_dimension=0
  ROOT r = (s32[?n], f32[<=6]) tuple(i, x) }""")
    executable = ingot.compile(module)
    for size in (0, 1, 5, 6):
        x = np.arange(size, dtype=np.float32)
        for mine, other in zip(executable(x), evaluate(module, [x]), strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)
    with pytest.raises(ExecutionError, match=r"needs \w+ <= 6.*dimension 0 of 'x'"):
        executable(np.zeros(7, np.float32))

# SPDX-License-Identifier: Apache-2.0
"""Loops and branches as one native call: carried values, updates in place, long loops, symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse

REDUCERS = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
last { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
"""


def _loop(state: str, step: str, result: str, limit: str = "10") -> str:
    """Return a module that counts element 0 of `state` up to `limit` and changes the others.

    `step` computes `o1`, `o2` … from `i` and `s1`, `s2` …; the entry's parameters are those.
    """
    shapes = state.split()
    names = range(1, len(shapes) + 1)
    numbered = list(enumerate(shapes, 1))
    kind = f"(s32[], {', '.join(shapes)})"
    parts = "\n".join(f"s{n} = {s} get-tuple-element(p), index={n}" for n, s in numbered)
    given = "\n".join(f"x{n} = {s} parameter({n - 1})" for n, s in numbered)
    return f"""HloModule m
{REDUCERS}
body {{ p = {kind} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  {parts}
  {step}
  ROOT t = {kind} tuple(next, {", ".join(f"o{n}" for n in names)}) }}
condition {{ q = {kind} parameter(0)
  j = s32[] get-tuple-element(q), index=0
  n = s32[] constant({limit})
  ROOT c = pred[] compare(j, n), direction=LT }}
ENTRY e {{ {given}
  zero = s32[] constant(0)
  start = {kind} tuple(zero, {", ".join(f"x{n}" for n in names)})
  w = {kind} while(start), condition=condition, body=body
  {result} }}"""


def _check(text: str, *inputs: Any) -> None:
    agrees(parse(text), inputs, rtol=1e-5, atol=1e-6)


def _random(*dims: int) -> Any:
    return np.random.default_rng(0).standard_normal(dims).astype(np.float32)


def test_values_are_carried() -> None:
    step = """o1 = f32[5] add(s1, s2)
      o2 = f32[5] multiply(s2, s2)"""
    text = _loop("f32[5] f32[5]", step, "ROOT r = f32[5] get-tuple-element(w), index=1", "3")
    _check(text, _random(5), _random(5) / 2)


def test_values_are_exchanged() -> None:
    step = """o1 = f32[5] copy(s2)
      o2 = f32[5] copy(s1)"""
    result = """a = f32[5] get-tuple-element(w), index=1
      b = f32[5] get-tuple-element(w), index=2
      ROOT r = f32[5] subtract(a, b)"""
    for rounds in ("0", "1", "2", "7"):
        _check(_loop("f32[5] f32[5]", step, result, rounds), _random(5), 2 * _random(5))


def test_rows_are_written_one_per_round() -> None:
    step = """z = s32[] constant(0)
      f = f32[] convert(i)
      fb = f32[1,7] broadcast(f), dimensions={}
      row = f32[1,7] dynamic-slice(s1, i, z), dynamic_slice_sizes={1,7}
      new = f32[1,7] add(row, fb)
      o1 = f32[10,7] dynamic-update-slice(s1, new, i, z)"""
    text = _loop("f32[10,7]", step, "ROOT r = f32[10,7] get-tuple-element(w), index=1")
    _check(text, _random(10, 7))


def test_the_buffer_that_is_updated_may_still_be_read() -> None:
    step = """z = s32[] constant(0)
      sum = f32[] constant(0)
      total = f32[] reduce(s1, sum), dimensions={0}, to_apply=add
      cell = f32[1] reshape(total)
      o1 = f32[10] dynamic-update-slice(s1, cell, i)"""
    text = _loop("f32[10]", step, "ROOT r = f32[10] get-tuple-element(w), index=1")
    _check(text, _random(10))


def test_gather_and_scatter_in_a_loop() -> None:
    step = """ib = s32[4] broadcast(i), dimensions={}
      ids = s32[4] iota(), iota_dimension=0
      places = s32[4] add(ids, ib)
      g = f32[4] gather(s1, places), offset_dims={}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1}
      o1 = f32[12] scatter(s1, places, g), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    text = _loop("f32[12]", step, "ROOT r = f32[12] get-tuple-element(w), index=1")
    _check(text, _random(12))


@pytest.mark.parametrize("reducer", ["add", "last"])
def test_scatter_to_equal_indices_goes_in_order(reducer: str) -> None:
    text = f"""HloModule m
    {REDUCERS}
    ENTRY e {{ x = f32[6] parameter(0)
      ids = s32[40] parameter(1)
      u = f32[40] parameter(2)
      ROOT s = f32[6] scatter(x, ids, u), update_window_dims={{}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={reducer} }}"""
    ids = np.random.default_rng(1).integers(-1, 8, 40).astype(np.int32)
    _check(text, _random(6), ids, _random(40))


def test_a_hundred_thousand_rounds_of_a_scalar_loop() -> None:
    step = """k = f32[] constant(1)
      o1 = f32[] add(s1, k)"""
    text = _loop("f32[]", step, "ROOT r = f32[] get-tuple-element(w), index=1", "100000")
    assert ingot.compile(parse(text))(np.float32(0.5)) == 100000.5


def test_loops_inside_loops() -> None:
    inner = """
inner { p = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[3] get-tuple-element(p), index=1
  half = f32[] constant(0.5)
  hb = f32[3] broadcast(half), dimensions={}
  y = f32[3] multiply(x, hb)
  ROOT t = (s32[], f32[3]) tuple(next, y) }
less { q = (s32[], f32[3]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(j, n), direction=LT }
"""
    step = """z = s32[] constant(0)
      start2 = (s32[], f32[3]) tuple(z, s1)
      w2 = (s32[], f32[3]) while(start2), condition=less, body=inner
      v = f32[3] get-tuple-element(w2), index=1
      o1 = f32[3] add(v, s1)"""
    text = _loop("f32[3]", step, "ROOT r = f32[3] get-tuple-element(w), index=1", "4")
    _check(text.replace("\nbody {", inner + "\nbody {"), _random(3))


def test_loops_over_symbolic_sizes() -> None:
    step = """o1 = f32[?n] add(s1, s2)
      o2 = f32[?n] copy(s2)"""
    text = _loop("f32[?n] f32[?n]", step, "ROOT r = f32[?n] get-tuple-element(w), index=1", "5")
    for size in (0, 1, 33):
        _check(text, _random(size), _random(size))


BRANCHES = """HloModule m
double { a = f32[?n] parameter(0)
  ROOT r = f32[?n] add(a, a) }
negative { a = f32[?n] parameter(0)
  ROOT r = f32[?n] negate(a) }
same { ROOT a = f32[?n] parameter(0) }
ENTRY e { which = KIND[] parameter(0)
  x = f32[?n] parameter(1)
  c = f32[?n] conditional(which, ARGUMENTS
  ROOT r = f32[?n] multiply(c, x) }"""


@pytest.mark.parametrize("which", [False, True])
def test_two_branches(which: bool) -> None:
    text = BRANCHES.replace("KIND", "pred").replace(
        "ARGUMENTS", "x, x), true_computation=double, false_computation=negative"
    )
    _check(text, np.bool_(which), _random(9))


@pytest.mark.parametrize("which", [-5, 0, 1, 2, 3, 99])
def test_many_branches_and_indices_out_of_range(which: int) -> None:
    text = BRANCHES.replace("KIND", "s32").replace(
        "ARGUMENTS", "x, x, x), branch_computations={double, negative, same}"
    )
    _check(text, np.int32(which), _random(9))


def test_a_branch_in_a_loop() -> None:
    step = """two = s32[] constant(2)
      left = s32[] remainder(i, two)
      o1 = f32[4] conditional(left, s1, s1), branch_computations={half, more}"""
    branches = """
half { a = f32[4] parameter(0)
  k = f32[] constant(0.5)
  kb = f32[4] broadcast(k), dimensions={}
  ROOT r = f32[4] multiply(a, kb) }
more { a = f32[4] parameter(0)
  ROOT r = f32[4] exponential(a) }
"""
    text = _loop("f32[4]", step, "ROOT r = f32[4] get-tuple-element(w), index=1", "5")
    _check(text.replace("\nbody {", branches + "\nbody {"), _random(4))

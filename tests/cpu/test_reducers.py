# SPDX-License-Identifier: Apache-2.0
"""Reducers, combiners and comparators that no kernel has a form for, and padded windows.

XLA runs those with reductions inside, and is asked; loops and arrays in them end its process.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees
from tests.support.real_xla import run_hlo_text

from ingot.formats.hlo_text import parse

COMPUTATIONS = """HloModule m

positive { s = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  ROOT p = pred[] compare(n, zero), direction=GT }
count { s = (s32[], s32[]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  up = s32[] add(t, one)
  down = s32[] subtract(n, one)
  ROOT r = (s32[], s32[]) tuple(up, down) }
slow_add { a = s32[] parameter(0)
  b = s32[] parameter(1)
  s = (s32[], s32[]) tuple(a, b)
  w = (s32[], s32[]) while(s), condition=positive, body=count
  ROOT r = s32[] get-tuple-element(w), index=0 }
add { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
sum_of_four { a = s32[] parameter(0)
  wide = s32[4] broadcast(a), dimensions={}
  zero = s32[] constant(0)
  ROOT r = s32[] reduce(wide, zero), dimensions={0}, to_apply=add }
plus_by_fours { a = s32[] parameter(0)
  b = s32[] parameter(1)
  f = s32[] call(a), to_apply=sum_of_four
  k = s32[] constant(4)
  same = s32[] divide(f, k)
  ROOT r = s32[] add(same, b) }
by_concatenation { a = s32[] parameter(0)
  b = s32[] parameter(1)
  a1 = s32[1] reshape(a)
  b1 = s32[1] reshape(b)
  pair = s32[2] concatenate(a1, b1), dimensions={0}
  twin = s32[2] reverse(pair), dimensions={0}
  sums = s32[2] add(pair, twin)
  one = s32[1] slice(sums), slice={[1:2]}
  ROOT r = s32[] reshape(one) }
larger { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT p = pred[] compare(a, b), direction=GE }
slow_larger { a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  x = s32[] call(zero, a), to_apply=slow_add
  y = s32[] call(zero, b), to_apply=slow_add
  ROOT p = pred[] compare(x, y), direction=GE }
slow_less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  zero = s32[] constant(0)
  x = s32[] call(zero, a), to_apply=slow_add
  y = s32[] call(zero, b), to_apply=slow_add
  ROOT p = pred[] compare(x, y), direction=LT }
both { a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  s = s32[] call(a, b), to_apply=slow_add
  m = s32[] maximum(i, j)
  ROOT t = (s32[], s32[]) tuple(s, m) }
two_sums { a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  s = s32[] add(a, b)
  m = s32[] add(i, j)
  ROOT t = (s32[], s32[]) tuple(s, m) }
greatest { a = s32[] parameter(0)
  i = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GT
  m = s32[] select(p, a, b)
  n = s32[] select(p, i, j)
  ROOT t = (s32[], s32[]) tuple(m, n) }
"""

SCATTER = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
BATCHED = (
    "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
    "input_batching_dims={0}, scatter_indices_batching_dims={0}"
)

WITH_LOOPS = {
    "reduce": """x = s32[3,4,5] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[4] reduce(x, z), dimensions={2,0}, to_apply=slow_add""",
    "array in a reducer": """x = s32[3,5] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3] reduce(x, z), dimensions={1}, to_apply=by_concatenation""",
    "reduce all": """x = s32[3,5] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[] reduce(x, z), dimensions={0,1}, to_apply=slow_add""",
    "reduce two": """x = s32[3,5] parameter(0)
  i = s32[3,5] iota(), iota_dimension=1
  z = s32[] constant(2)
  ROOT r = (s32[3], s32[3]) reduce(x, i, z, z), dimensions={1}, to_apply=both""",
    "reduce none": """x = s32[3,0] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3] reduce(x, z), dimensions={1}, to_apply=slow_add""",
    "window": """x = s32[5,6] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3,11] reduce-window(x, z), to_apply=slow_add,
    window={size=2x3 stride=2x1 pad=0_1x1_1 lhs_dilate=1x2}""",
    "windows of two": """x = s32[4] parameter(0)
  i = s32[4] iota(), iota_dimension=0
  z = s32[] constant(2)
  ROOT r = (s32[4], s32[4]) reduce-window(x, i, z, z), window={size=2 pad=1_0}, to_apply=both""",
    "scatter": f"""x = s32[5,4] parameter(0)
  i = s32[3,1] constant({{{{1}},{{9}},{{1}}}})
  u = s32[3,4] parameter(1)
  ROOT r = s32[5,4] scatter(x, i, u), {SCATTER}, index_vector_dim=1, to_apply=slow_add""",
    "scatter in batches": f"""x = s32[2,4] parameter(0)
  i = s32[2,3] constant({{{{1,1,-1}},{{3,0,4}}}})
  u = s32[2,3] parameter(1)
  ROOT r = s32[2,4] scatter(x, i, u), {BATCHED}, index_vector_dim=2, to_apply=slow_add""",
    "select and scatter": """x = s32[4,6] parameter(0)
  u = s32[2,3] parameter(1)
  z = s32[] constant(1)
  ROOT r = s32[4,6] select-and-scatter(x, u, z), window={size=2x2 stride=2x2},
    select=slow_larger, scatter=slow_add""",
    "select and scatter over": """x = s32[4,6] parameter(0)
  u = s32[3,5] parameter(1)
  z = s32[] constant(1)
  ROOT r = s32[4,6] select-and-scatter(x, u, z), window={size=2x2},
    select=slow_larger, scatter=slow_add""",
    "sort": """x = s32[5,4] parameter(0)
  i = s32[5,4] iota(), iota_dimension=0
  ROOT r = (s32[5,4], s32[5,4]) sort(x, i), dimensions={0}, is_stable=true, to_apply=slow_less""",
}

WITHOUT = {
    "reduce": """x = s32[3,5] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3] reduce(x, z), dimensions={1}, to_apply=plus_by_fours""",
    "window": """x = s32[5,6] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3,7] reduce-window(x, z), to_apply=plus_by_fours,
    window={size=2x2 stride=2x1 pad=0_1x1_1}""",
    "scatter": f"""x = s32[5,4] parameter(0)
  i = s32[3,1] constant({{{{1}},{{9}},{{1}}}})
  u = s32[3,4] parameter(1)
  ROOT r = s32[5,4] scatter(x, i, u), {SCATTER}, index_vector_dim=1, to_apply=plus_by_fours""",
    "select and scatter": """x = s32[4,6] parameter(0)
  u = s32[2,3] parameter(1)
  z = s32[] constant(1)
  ROOT r = s32[4,6] select-and-scatter(x, u, z), window={size=2x2 stride=2x2},
    select=larger, scatter=plus_by_fours""",
    "reduce over nothing": """x = s32[3,5] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[3,5] reduce(x, z), dimensions={}, to_apply=add""",
    "two over nothing": """x = s32[5] parameter(0)
  i = s32[5] iota(), iota_dimension=0
  z = s32[] constant(2)
  ROOT r = (s32[5], s32[5]) reduce(x, i, z, z), dimensions={}, to_apply=both""",
    "window and its start": """x = s32[6] parameter(0)
  z = s32[] parameter(1)
  ROOT r = s32[9] reduce-window(x, z), window={size=2 pad=2_2}, to_apply=add""",
    "window spread out": """x = s32[6] parameter(0)
  z = s32[] constant(2)
  ROOT r = s32[9] reduce-window(x, z), window={size=3 lhs_dilate=2}, to_apply=add""",
    "windows of two sums and their starts": """x = s32[6] parameter(0)
  y = s32[6] parameter(1)
  z = s32[] constant(2)
  ROOT r = (s32[10], s32[10]) reduce-window(x, y, z, z),
    window={size=3 pad=1_0 lhs_dilate=2}, to_apply=two_sums""",
    "windows of the greatest and its number": """x = s32[6] parameter(0)
  i = s32[6] iota(), iota_dimension=0
  z = s32[] constant(4)
  n = s32[] constant(-1)
  ROOT r = (s32[7], s32[7]) reduce-window(x, i, z, n), window={size=2 pad=1_1},
    to_apply=greatest""",
}


def _run(body: str) -> tuple[str, list[np.ndarray], list[np.ndarray]]:
    """Return the text, its inputs and the CPU's results, which are the evaluator's."""
    text = f"{COMPUTATIONS}\nENTRY e {{\n  {body}\n}}\n"
    module = parse(text)
    random = np.random.default_rng(0)
    inputs = [
        random.integers(0, 9, one.shape.static_dims).astype(np.int32)
        for one in module.entry.parameters
    ]
    return text, inputs, agrees(module, inputs).results


@pytest.mark.parametrize("name", WITH_LOOPS)
def test_loops_run_for_one_element_after_the_other(name: str) -> None:
    _, (first, *_), results = _run(WITH_LOOPS[name])
    if name == "reduce":
        np.testing.assert_array_equal(results[0], first.sum(axis=(0, 2)) + 2)
    if name == "sort":
        np.testing.assert_array_equal(results[0], np.sort(first, axis=0))
        np.testing.assert_array_equal(results[1], np.argsort(first, axis=0, kind="stable"))


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT)
def test_results_are_those_of_xla(name: str) -> None:
    text, inputs, results = _run(WITHOUT[name])
    for found, wanted in zip(results, run_hlo_text(text, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)

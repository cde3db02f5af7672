# SPDX-License-Identifier: Apache-2.0
"""Short runs that are gathered and folded: distances of points, wherever their numbers lead."""

import ml_dtypes
import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.target import TargetSpec, host_levels

NUMPY = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
TOLERANCE = {"f32": 1e-6, "f64": 1e-14, "bf16": 2e-2}


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("edges", [1, 17, 211])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_squares_of_distances_are_those_of_the_evaluator(length, edges, name, level):
    take = f"""offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
      index_vector_dim=1, slice_sizes={{1,{length}}}"""
    module = ingot.parse_hlo(f"""HloModule m

add {{
  a = {name}[] parameter(0)
  b = {name}[] parameter(1)
  ROOT r = {name}[] add(a, b)
}}

ENTRY e {{
  points = {name}[31,{length}] parameter(0)
  ends = s32[2,{edges}] parameter(1)
  first = s32[1,{edges}] slice(ends), slice={{[0:1], [0:{edges}]}}
  last = s32[1,{edges}] slice(ends), slice={{[1:2], [0:{edges}]}}
  from = s32[{edges},1] reshape(first)
  to = s32[{edges},1] reshape(last)
  start = {name}[{edges},{length}] gather(points, from), {take}
  end = {name}[{edges},{length}] gather(points, to), {take}
  step = {name}[{edges},{length}] subtract(end, start)
  square = {name}[{edges},{length}] multiply(step, step)
  zero = {name}[] constant(0)
  ROOT sum = {name}[{edges}] reduce(square, zero), dimensions={{1}}, to_apply=add
}}""")
    random = np.random.default_rng(length + edges)
    points = random.uniform(-2, 2, (31, length)).astype(NUMPY[name])
    points[3, 1], points[5, 0] = np.nan, np.inf
    ends = random.integers(-4, 40, (2, edges)).astype(np.int32)  # some are clamped
    found = ingot.compile(module, target=TargetSpec.host(level))(points, ends)
    np.testing.assert_allclose(
        np.asarray(found).astype(np.float64),
        np.asarray(evaluate(module, [points, ends])).astype(np.float64),
        rtol=TOLERANCE[name],
    )

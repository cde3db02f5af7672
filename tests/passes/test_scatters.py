# SPDX-License-Identifier: Apache-2.0
"""Scatters of one window keep their meaning as updates of a slice, inside, outside, at the edge."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.simplify.scatters import scatter_simplifier

MODULE = """HloModule m
fold {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] {fold}
}}
ENTRY e {{
  x = s32[5,4,3] parameter(0)
  i = {index}[1,2] parameter(1)
  v = s32[1,2,3] parameter(2)
  ROOT y = s32[5,4,3] scatter(x, i, v), update_window_dims={{1,2}}, inserted_window_dims={{1}},
    scatter_dims_to_operand_dims={{1,0}}, index_vector_dim=1, to_apply=fold
}}"""


@pytest.mark.parametrize("fold", ["add(a, b)", "copy(b)", "maximum(a, b)", "subtract(b, a)"])
@pytest.mark.parametrize("index", ["s32", "s8", "u64"])
def test_windows(fold, index):
    module = parse(MODULE.format(fold=fold, index=index))
    simpler = module.clone()
    assert run_passes(scatter_simplifier, simpler, PassContext(debug=1))
    assert not any(i.opcode == "scatter" for i in simpler.entry.instructions)
    program = ingot.compile(module)
    x = np.arange(60, dtype=np.int32).reshape(5, 4, 3)
    v = -np.arange(100, 106, dtype=np.int32).reshape(1, 2, 3)
    for column in (-1, 0, 3, 4, 127):
        for row in (-2, 0, 3, 4, 5):
            i = np.array([[column, row]]).astype({"s32": "i4", "s8": "i1", "u64": "u8"}[index])
            want = evaluate(module, [x, i, v])
            np.testing.assert_array_equal(evaluate(simpler, [x, i, v]), want)
            np.testing.assert_array_equal(program(x, i, v), want)


def test_update_in_a_loop_copies_nothing():
    text = """HloModule m
    last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
    body {
      s = (s32[], f32[100,8]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[100,8] get-tuple-element(s), index=1
      one = s32[] constant(1)
      zero = s32[] constant(0)
      old = f32[1,8] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,8}
      new = f32[1,8] multiply(old, old)
      row = f32[8] reshape(new)
      at = s32[1] reshape(i)
      y = f32[100,8] scatter(x, at, row), update_window_dims={0}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=last
      j = s32[] add(i, one)
      ROOT t = (s32[], f32[100,8]) tuple(j, y)
    }
    more {
      s = (s32[], f32[100,8]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(100)
      ROOT p = pred[] compare(i, n), direction=LT
    }
    ENTRY e {
      x = f32[100,8] parameter(0)
      zero = s32[] constant(0)
      t = (s32[], f32[100,8]) tuple(zero, x)
      w = (s32[], f32[100,8]) while(t), condition=more, body=body
      ROOT r = f32[100,8] get-tuple-element(w), index=1
    }"""
    program = ingot.compile(parse(text))
    after = parse(program.as_text("hlo"))
    loop = next(i for i in after.entry.instructions if i.opcode == "while")
    assert not any(i.opcode == "copy" for i in loop.attributes.body.instructions)
    x = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)
    np.testing.assert_array_equal(program(x), x * x)


def test_window_without_an_index_starts_at_zero():
    """`x.at[:2].set(v)` under `vmap` of nothing: JAX's LU of a matrix has such a scatter."""
    text = """HloModule m
    last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
    ENTRY e {
      x = f32[3,2] parameter(0)
      i = s32[0] parameter(1)
      v = f32[2,2] parameter(2)
      ROOT y = f32[3,2] scatter(x, i, v), update_window_dims={0,1}, inserted_window_dims={},
        scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=last
    }"""
    module = parse(text)
    x, i, v = np.zeros((3, 2), "f"), np.zeros(0, np.int32), np.arange(4, dtype="f").reshape(2, 2)
    want = evaluate(module, [x, i, v])
    np.testing.assert_array_equal(ingot.compile(module)(x, i, v), want)

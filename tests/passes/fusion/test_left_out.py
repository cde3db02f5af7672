# SPDX-License-Identifier: Apache-2.0
"""Fusion left out by name (`--xla_disable_hlo_passes=fusion`): one kernel per op, same results."""

from __future__ import annotations

import numpy as np

from ingot.client import compile
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.rewrite.pass_base import PassContext

TEXT = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
condition {
  p = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4,8] get-tuple-element(p), index=1
  one = s32[] constant(1)
  zero = s32[] constant(0)
  j = s32[] add(i, one)
  u = f32[1,8] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,8}
  v = f32[1,8] add(u, u)
  y = f32[4,8] dynamic-update-slice(x, v, i, zero)
  ROOT t = (s32[], f32[4,8]) tuple(j, y)
}
ENTRY e {
  x = f32[8,8] parameter(0)
  c = f32[] constant(2)
  y = f32[8,8] add(x, x)
  z = f32[8,8] multiply(y, x)
  d = f32[8,8] dot(z, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[8] reduce(d, c), dimensions={1}, to_apply=add
  s = f32[8,8] sort(z), dimensions={1}, to_apply=less
  k = f32[2,4,8] reshape(s)
  q = f32[8,2,4] transpose(k), dimensions={2,0,1}
  h = f32[4,8] slice(s), slice={[0:4], [0:8]}
  zero = s32[] constant(0)
  w = (s32[], f32[4,8]) tuple(zero, h)
  loop = (s32[], f32[4,8]) while(w), condition=condition, body=body
  l = f32[4,8] get-tuple-element(loop), index=1
  n = f32[] constant(0)
  sums = f32[8,8] reduce-window(z, n), window={size=8x1 pad=7_0x0_0}, to_apply=add
  ROOT t = (f32[8], f32[8,2,4], f32[4,8], f32[8,8]) tuple(r, q, l, sums)
}
"""


def test_every_op_is_a_kernel_of_its_own():
    module = parse(TEXT)
    value = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    whole = compile(module)
    single = compile(module, context=PassContext(disabled=frozenset({"fusion"})))
    for mine, want in zip(single(value), evaluate(module, [value]), strict=True):
        np.testing.assert_allclose(np.asarray(mine), want, rtol=1e-4, atol=1e-4)
    assert len(single.kernels) > len(whole.kernels)
    fusions = [
        instruction
        for computation in single.module.computations.values()
        for instruction in computation.instructions
        if instruction.opcode == "fusion"
    ]
    assert fusions
    for fusion in fusions:
        (called,) = fusion.called_computations
        ops = [i for i in called.instructions if i.opcode not in ("parameter", "constant")]
        assert len(ops) == 1, called.shape_text

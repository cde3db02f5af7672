# SPDX-License-Identifier: Apache-2.0
"""The promise of fusion: well-known programs are one kernel each, with the evaluator's result."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import kernels_of

SUM_OF_PRODUCTS = """x = f32[3000] parameter(0)
  y = f32[3000] parameter(1)
  z = f32[3000] parameter(2)
  m = f32[3000] multiply(y, z)
  a = f32[3000] add(x, m)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(a, zero), dimensions={0}, to_apply=add"""

SOFTMAX = """p = f32[32,65] parameter(0)
  low = f32[] constant(-inf)
  m = f32[32] reduce(p, low), dimensions={1}, to_apply=max
  mb = f32[32,65] broadcast(m), dimensions={0}
  s = f32[32,65] subtract(p, mb)
  e = f32[32,65] exponential(s)
  zero = f32[] constant(0)
  t = f32[32] reduce(e, zero), dimensions={1}, to_apply=add
  tb = f32[32,65] broadcast(t), dimensions={0}
  ROOT d = f32[32,65] divide(e, tb)"""

LAYER_NORM = """x = f32[32,65] parameter(0)
  gain = f32[65] parameter(1)
  bias = f32[65] parameter(2)
  zero = f32[] constant(0)
  count = f32[] constant(65)
  cb = f32[32] broadcast(count), dimensions={}
  s = f32[32] reduce(x, zero), dimensions={1}, to_apply=add
  mean = f32[32] divide(s, cb)
  mb = f32[32,65] broadcast(mean), dimensions={0}
  d = f32[32,65] subtract(x, mb)
  dd = f32[32,65] multiply(d, d)
  v = f32[32] reduce(dd, zero), dimensions={1}, to_apply=add
  var = f32[32] divide(v, cb)
  eps = f32[] constant(1e-5)
  eb = f32[32] broadcast(eps), dimensions={}
  ve = f32[32] add(var, eb)
  r = f32[32] rsqrt(ve)
  rb = f32[32,65] broadcast(r), dimensions={0}
  n = f32[32,65] multiply(d, rb)
  gb = f32[32,65] broadcast(gain), dimensions={1}
  bb = f32[32,65] broadcast(bias), dimensions={1}
  g = f32[32,65] multiply(n, gb)
  ROOT o = f32[32,65] add(g, bb)"""

DENSE_GELU = """x = f32[33,70] parameter(0)
  w = f32[70,50] parameter(1)
  b = f32[50] parameter(2)
  d = f32[33,50] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[33,50] broadcast(b), dimensions={1}
  h = f32[33,50] add(d, bb)
  half = f32[] constant(0.5)
  hb = f32[33,50] broadcast(half), dimensions={}
  s = f32[] constant(0.70710678)
  sb = f32[33,50] broadcast(s), dimensions={}
  hs = f32[33,50] multiply(h, sb)
  e = f32[33,50] erf(hs)
  one = f32[] constant(1)
  ob = f32[33,50] broadcast(one), dimensions={}
  e1 = f32[33,50] add(e, ob)
  hh = f32[33,50] multiply(h, hb)
  ROOT o = f32[33,50] multiply(hh, e1)"""

ADAM = """p = f32[900] parameter(0)
  m = f32[900] parameter(1)
  v = f32[900] parameter(2)
  g = f32[900] parameter(3)
  rate = f32[] parameter(4)
  b1 = f32[] constant(0.9)
  b1b = f32[900] broadcast(b1), dimensions={}
  c1 = f32[] constant(0.1)
  c1b = f32[900] broadcast(c1), dimensions={}
  b2 = f32[] constant(0.999)
  b2b = f32[900] broadcast(b2), dimensions={}
  c2 = f32[] constant(0.001)
  c2b = f32[900] broadcast(c2), dimensions={}
  m1 = f32[900] multiply(m, b1b)
  g1 = f32[900] multiply(g, c1b)
  nm = f32[900] add(m1, g1)
  g2 = f32[900] multiply(g, g)
  v1 = f32[900] multiply(v, b2b)
  g3 = f32[900] multiply(g2, c2b)
  nv = f32[900] add(v1, g3)
  sq = f32[900] sqrt(nv)
  eps = f32[] constant(1e-7)
  eb = f32[900] broadcast(eps), dimensions={}
  den = f32[900] add(sq, eb)
  st = f32[900] divide(nm, den)
  rb = f32[900] broadcast(rate), dimensions={}
  up = f32[900] multiply(st, rb)
  np = f32[900] subtract(p, up)
  ROOT t = (f32[900], f32[900], f32[900]) tuple(np, nm, nv)"""

LOGITS_LOSS = """logits = f32[64,10] parameter(0)
  labels = s32[64] parameter(1)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[64] reduce(logits, low), dimensions={1}, to_apply=max
  mb = f32[64,10] broadcast(m), dimensions={0}
  s = f32[64,10] subtract(logits, mb)
  e = f32[64,10] exponential(s)
  t = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  l = f32[64] log(t)
  lb = f32[64,10] broadcast(l), dimensions={0}
  lp = f32[64,10] subtract(s, lb)
  i = s32[64,10] iota(), iota_dimension=1
  labelsb = s32[64,10] broadcast(labels), dimensions={0}
  hit = pred[64,10] compare(i, labelsb), direction=EQ
  z = f32[64,10] broadcast(zero), dimensions={}
  picked = f32[64,10] select(hit, lp, z)
  loss = f32[64] reduce(picked, zero), dimensions={1}, to_apply=add
  ROOT n = f32[64] negate(loss)"""

ARGMAX = """x = f32[20,33] parameter(0)
  i = s32[20,33] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  ROOT r = (f32[20], s32[20]) reduce(x, i, low, none), dimensions={1}, to_apply=argmax"""

EMBEDDING = """table = f32[50,16] parameter(0)
  ids = s32[30] parameter(1)
  scale = f32[] parameter(2)
  rows = f32[30,16] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}
  sb = f32[30,16] broadcast(scale), dimensions={}
  ROOT o = f32[30,16] multiply(rows, sb)"""

SEQUENCE_LAYER = """x = f32[3,11,70] parameter(0)
  w = f32[70,50] parameter(1)
  b = f32[50] parameter(2)
  z = f32[3,11,50] parameter(3)
  d = f32[3,11,50] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  bb = f32[3,11,50] broadcast(b), dimensions={2}
  h = f32[3,11,50] add(d, bb)
  r = f32[3,11,50] add(h, z)
  ROOT o = f32[3,11,50] tanh(r)"""

PROGRAMS = {
    "sum of products": SUM_OF_PRODUCTS,
    "softmax": SOFTMAX,
    "layer norm": LAYER_NORM,
    "dense with gelu": DENSE_GELU,
    "dense on a sequence, with a residual": SEQUENCE_LAYER,
    "Adam": ADAM,
    "cross entropy": LOGITS_LOSS,
    "argmax": ARGMAX,
    "embedding": EMBEDDING,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_kernel(name: str) -> None:
    assert len(kernels_of(PROGRAMS[name])) == 1


def test_a_kernel_holds_what_it_says() -> None:
    (opcodes,) = kernels_of(SUM_OF_PRODUCTS)
    assert set(opcodes) == {"multiply", "add", "reduce"}


def test_two_layers_are_two_kernels() -> None:
    text = """x = f32[9,16] parameter(0)
      w = f32[16,16] parameter(1)
      d = f32[9,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      t = f32[9,16] tanh(d)
      d2 = f32[9,16] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t2 = f32[9,16] tanh(d2)"""
    assert kernels_of(text) == [("dot", "tanh"), ("dot", "tanh")]


def test_arithmetic_stays_out_of_a_product_behind_a_reshape() -> None:
    """A product reads each element many times, also where a reshape stands between."""
    text = """x = f32[3,3,16] parameter(0)
      y = f32[3,3,16] parameter(1)
      w = f32[16,16] parameter(2)
      s = f32[3,3,16] subtract(x, y)
      r = f32[9,16] reshape(s)
      ROOT d = f32[9,16] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert kernels_of(text) == [("subtract",), ("reshape", "dot")]

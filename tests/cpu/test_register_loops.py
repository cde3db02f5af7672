# SPDX-License-Identifier: Apache-2.0
"""Loops on small values: kernels inlined into the host program, state on the stack."""

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse
from ingot.hlo.dtype import dtype

HEADER = """HloModule m
more {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=LT
}}
"""


def run(text, *args):
    """Return the program after comparing its result with the evaluator's."""
    return agrees(parse(text), args, rtol=1e-6).executable


def calls_kernels(program):
    return "call void @k_" in program.as_text("llvm_optimized")


SWAP = (
    HEADER.format(state="(s32[], s32[], f32[], f32[5], f32[5])")
    + """
body {
  s = (s32[], s32[], f32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[] get-tuple-element(s), index=2
  a = f32[5] get-tuple-element(s), index=3
  b = f32[5] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] convert(i)
  y = f32[] add(x, f)
  wide = f32[5] broadcast(y), dimensions={}
  c = f32[5] add(a, wide)
  ROOT t = (s32[], s32[], f32[], f32[5], f32[5]) tuple(j, n, y, b, c)
}
ENTRY e {
  n = s32[] parameter(0)
  x = f32[] parameter(1)
  a = f32[5] parameter(2)
  b = f32[5] parameter(3)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[], f32[5], f32[5]) tuple(zero, n, x, a, b)
  w = (s32[], s32[], f32[], f32[5], f32[5]) while(t), condition=more, body=body
  y = f32[] get-tuple-element(w), index=2
  c = f32[5] get-tuple-element(w), index=3
  d = f32[5] get-tuple-element(w), index=4
  ROOT r = (f32[], f32[5], f32[5], f32[5]) tuple(y, c, d, a)
}"""
)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_exchanged_elements_of_the_state(count):
    a, b = np.arange(5, dtype=np.float32), -np.arange(5, dtype=np.float32)
    program = run(SWAP, np.int32(count), np.float32(0.5), a, b)
    assert not calls_kernels(program)


NESTED = (
    HEADER.format(state="(s32[], s32[], s32[])")
    + """
inner_more {
  s = (s32[], s32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(k, i), direction=LT
}
inner {
  s = (s32[], s32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  x = s32[] get-tuple-element(s), index=2
  three = s32[] constant(3)
  one = s32[] constant(1)
  m = s32[] multiply(x, three)
  y = s32[] add(m, k)
  l = s32[] add(k, one)
  ROOT t = (s32[], s32[], s32[]) tuple(l, i, y)
}
even { a = s32[] parameter(0) two = s32[] constant(2) ROOT b = s32[] divide(a, two) }
odd { a = s32[] parameter(0) ROOT b = s32[] negate(a) }
body {
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = s32[] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  t = (s32[], s32[], s32[]) tuple(zero, i, x)
  w = (s32[], s32[], s32[]) while(t), condition=inner_more, body=inner
  y = s32[] get-tuple-element(w), index=2
  bit = s32[] and(i, one)
  isodd = pred[] compare(bit, one), direction=EQ
  z = s32[] conditional(isodd, y, y), true_computation=odd, false_computation=even
  j = s32[] add(i, one)
  ROOT r = (s32[], s32[], s32[]) tuple(j, n, z)
}
ENTRY e {
  n = s32[] parameter(0)
  x = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], s32[]) tuple(zero, n, x)
  w = (s32[], s32[], s32[]) while(t), condition=more, body=body
  ROOT r = s32[] get-tuple-element(w), index=2
}"""
)


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_loops_and_branches_inside(count):
    program = run(NESTED, np.int32(count), np.int32(7))
    assert not calls_kernels(program)


LOOKUP = (
    HEADER.format(state="(s32[], s32[], f32[1000], f32[])")
    + """
body {
  s = (s32[], s32[], f32[1000], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  table = f32[1000] get-tuple-element(s), index=2
  x = f32[] get-tuple-element(s), index=3
  found = f32[1] dynamic-slice(table, i), dynamic_slice_sizes={1}
  value = f32[] reshape(found)
  y = f32[] add(x, value)
  new = f32[1] reshape(y)
  after = f32[1000] dynamic-update-slice(table, new, i)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], s32[], f32[1000], f32[]) tuple(j, n, after, y)
}
ENTRY e {
  n = s32[] parameter(0)
  table = f32[1000] parameter(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  t = (s32[], s32[], f32[1000], f32[]) tuple(zero, n, table, none)
  w = (s32[], s32[], f32[1000], f32[]) while(t), condition=more, body=body
  a = f32[1000] get-tuple-element(w), index=2
  b = f32[] get-tuple-element(w), index=3
  ROOT r = (f32[1000], f32[]) tuple(a, b)
}"""
)


@pytest.mark.parametrize("count", [0, 1, 1000, 1003])
def test_large_state_stays_in_memory(count):
    table = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    before = table.copy()
    run(LOOKUP, np.int32(count), table)
    np.testing.assert_array_equal(table, before)


def test_what_a_loop_computes_alike_is_computed_once_before_it():
    """The product leaves both loops, and each reads the buffer that holds it."""
    text = """HloModule m
    more { s = (s32[], f32[9,9], f32[9,9]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT p = pred[] compare(i, n), direction=LT }
    step { s = (s32[], f32[9,9], f32[9,9]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      w = f32[9,9] get-tuple-element(s), index=1
      x = f32[9,9] get-tuple-element(s), index=2
      one = s32[] constant(1)
      j = s32[] add(i, one)
      d = f32[9,9] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      y = f32[9,9] add(x, d)
      ROOT r = (s32[], f32[9,9], f32[9,9]) tuple(j, w, y) }
    outer { s = (s32[], f32[9,9], f32[9,9]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      w = f32[9,9] get-tuple-element(s), index=1
      x = f32[9,9] get-tuple-element(s), index=2
      zero = s32[] constant(0)
      one = s32[] constant(1)
      j = s32[] add(i, one)
      t = (s32[], f32[9,9], f32[9,9]) tuple(zero, w, x)
      l = (s32[], f32[9,9], f32[9,9]) while(t), condition=more, body=step
      y = f32[9,9] get-tuple-element(l), index=2
      ROOT r = (s32[], f32[9,9], f32[9,9]) tuple(j, w, y) }
    ENTRY e { w = f32[9,9] parameter(0)
      x = f32[9,9] parameter(1)
      zero = s32[] constant(0)
      t = (s32[], f32[9,9], f32[9,9]) tuple(zero, w, x)
      ROOT l = (s32[], f32[9,9], f32[9,9]) while(t), condition=more, body=outer }"""
    random = np.random.default_rng(0)
    program = run(text, *random.uniform(size=(2, 9, 9)).astype(np.float32))
    entry = program.as_text("hlo").split("ENTRY")[1]
    assert entry.count("calls=%fused_dot") == 1
    assert program.as_text("hlo").count(" dot(") == 1


PADDED = """HloModule m
sum {{
  x = {type}[] parameter(0)
  y = {type}[] parameter(1)
  ROOT r = {type}[] add(x, y)
}}
more {{
  s = (s32[], {type}[{n}], {type}[{n}], pred[{n}], {type}[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({count})
  ROOT p = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], {type}[{n}], {type}[{n}], pred[{n}], {type}[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = {type}[{n}] get-tuple-element(s), index=1
  b = {type}[{n}] get-tuple-element(s), index=2
  p = pred[{n}] get-tuple-element(s), index=3
  t = {type}[] get-tuple-element(s), index=4
  one = s32[] constant(1)
  j = s32[] add(i, one)
  quotient = {type}[{n}] divide(a, b)
  chosen = {type}[{n}] select(p, quotient, b)
  zero = {type}[] constant(0)
  total = {type}[] reduce(chosen, zero), dimensions={{0}}, to_apply=sum
  u = {type}[] add(t, total)
  q = pred[{n}] compare(chosen, a), direction=LE
  first = {type}[1] reshape(u)
  c = {type}[{n}] dynamic-update-slice(b, first, i)
  d = {type}[{n}] reverse(chosen), dimensions={{0}}
  ROOT r = (s32[], {type}[{n}], {type}[{n}], pred[{n}], {type}[]) tuple(j, d, c, q, u)
}}
ENTRY e {{
  a = {type}[{n}] parameter(0)
  b = {type}[{n}] parameter(1)
  p = pred[{n}] compare(a, b), direction=LT
  i = s32[] constant(0)
  zero = {type}[] constant(0)
  s = (s32[], {type}[{n}], {type}[{n}], pred[{n}], {type}[]) tuple(i, a, b, p, zero)
  ROOT w = (s32[], {type}[{n}], {type}[{n}], pred[{n}], {type}[]) while(s), condition=more,
    body=body
}}"""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 13, 16, 17, 33, 64])
@pytest.mark.parametrize("type_", ["f32", "f64", "f16", "bf16", "s32", "u8", "s64"])
def test_values_that_do_not_fill_their_vectors(type_, size):
    element = dtype(type_).numpy
    random = np.random.default_rng(size)
    a, b = (random.integers(0, 5, size).astype(element) for _ in range(2))
    if type_ == "f32":
        a[::5], b[::7] = np.nan, -np.inf
    for level in ("", "avx2", "plain"):
        for count in (0, 1, 5):
            text = PADDED.format(type=type_, n=size, count=count)
            agrees(parse(text), (a, b), rtol=2e-2, level=level)


TRANSPOSED = """HloModule m
more {{
  s = (s32[], {type}[{m},{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], {type}[{m},{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = {type}[{m},{n}] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = {type}[{n},{m}] transpose(a), dimensions={{1,0}}
  flat = {type}[{m},{n}] reshape(t)
  b = {type}[{m},{n}] subtract(a, flat)
  ROOT r = (s32[], {type}[{m},{n}]) tuple(j, b)
}}
ENTRY e {{
  a = {type}[{m},{n}] parameter(0)
  i = s32[] constant(0)
  s = (s32[], {type}[{m},{n}]) tuple(i, a)
  ROOT w = (s32[], {type}[{m},{n}]) while(s), condition=more, body=body
}}"""


@pytest.mark.parametrize("type_", ["f32", "f64", "bf16", "s8"])
@pytest.mark.parametrize("dims", [(4, 4), (7, 7), (8, 8), (4, 16), (2, 32), (9, 9)])
def test_matrices_are_transposed_in_loops(type_, dims):
    """Squares of eight are transposed in the library, with which the host program is not linked."""
    a = np.random.default_rng(1).integers(0, 5, dims).astype(dtype(type_).numpy)
    for level in ("", "avx2", "plain"):
        agrees(parse(TRANSPOSED.format(type=type_, m=dims[0], n=dims[1])), (a,), level=level)


def test_loops_keep_values_that_do_not_fill_their_vectors_in_registers():
    text = """HloModule m
more {
  s = (s32[], f32[7], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT p = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[7], f32[7]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[7] get-tuple-element(s), index=1
  b = f32[7] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[7] add(a, b)
  d = f32[7] subtract(a, c)
  ROOT r = (s32[], f32[7], f32[7]) tuple(j, d, c)
}
ENTRY e {
  a = f32[7] parameter(0)
  b = f32[7] parameter(1)
  i = s32[] constant(0)
  s = (s32[], f32[7], f32[7]) tuple(i, a, b)
  ROOT w = (s32[], f32[7], f32[7]) while(s), condition=more, body=body
}"""
    a, b = np.arange(7, dtype=np.float32), np.ones(7, np.float32)
    program = run(text, a, b)
    loop = program.as_text("llvm_optimized").partition("@loop_0")[2].partition("\n}")[0]
    assert "<8 x float>" in loop
    assert "masked.store" not in loop
    assert "alloca" not in loop


def test_kernels_of_loops_keep_their_reasons():
    """A small kernel is scheduled once, before anything is emitted, and says what refused it."""
    program = ingot.compile(SWAP)
    kernels = program.inspection.compiled.kernels
    assert kernels.inlined
    for kernel in program.kernels:
        assert kernel.strategy == "inside its loop"
        made = kernels.inlined[kernel.name]
        assert made.schedule.chunks == 1
        assert kernel.refused == made.refused
        assert (
            dict(kernel.refused)["split reduction"]
            == "it is not one reduction, with what follows it"
        )

# SPDX-License-Identifier: Apache-2.0
"""Modules for the tests of ahead-of-time code: each uses something else of the compiler.

Between them: products that the library's drivers run, loops, branches, sorts, tables of transforms,
constants, symbolic sizes, element types of every kind.
"""

_ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"

ELEMENTWISE = """
HloModule elementwise
ENTRY main {{
  x = {0}[7,13] parameter(0)
  y = {0}[7,13] parameter(1)
  s = {0}[7,13] add(x, y)
  ROOT p = {0}[7,13] multiply(s, x)
}}
"""

DTYPES = ("f32", "f64", "f16", "bf16", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "c64")

PROGRAMS = {
    "softmax": f"""
HloModule softmax
maximum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
{_ADD}
ENTRY main {{
  x = f32[5,11] parameter(0)
  least = f32[] constant(-inf)
  most = f32[5] reduce(x, least), dimensions={{1}}, to_apply=maximum
  wide = f32[5,11] broadcast(most), dimensions={{0}}
  shifted = f32[5,11] subtract(x, wide)
  e = f32[5,11] exponential(shifted)
  zero = f32[] constant(0)
  sum = f32[5] reduce(e, zero), dimensions={{1}}, to_apply=add
  sums = f32[5,11] broadcast(sum), dimensions={{0}}
  ROOT y = f32[5,11] divide(e, sums)
}}
""",
    "product": """
HloModule product
ENTRY main {
  x = f32[97,131] parameter(0)
  y = f32[131,65] parameter(1)
  ROOT z = f32[97,65] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
    "weights": """
HloModule weights
ENTRY main {
  x = f32[3,2] parameter(0)
  w = f32[2,3] constant({{1, 2, 3}, {4, 5, 6}})
  y = f32[3,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[3,3] tanh(y)
  ROOT r = (f32[3,3], f32[3,3], f32[2,3]) tuple(y, z, w)
}
""",
    "loop": """
HloModule loop
body {
  s = (s32[], f32[9]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[9] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  y = f32[9] cosine(x)
  ROOT r = (s32[], f32[9]) tuple(next, y)
}
condition {
  s = (s32[], f32[9]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT c = pred[] compare(n, five), direction=LT
}
ENTRY main {
  x = f32[9] parameter(0)
  n = s32[] constant(0)
  start = (s32[], f32[9]) tuple(n, x)
  w = (s32[], f32[9]) while(start), condition=condition, body=body
  ROOT r = f32[9] get-tuple-element(w), index=1
}
""",
    "sort": """
HloModule sort
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[301] parameter(0)
  ROOT y = f32[301] sort(x), dimensions={0}, to_apply=less
}
""",
    "transform": """
HloModule transform
ENTRY main {
  x = c64[3,30] parameter(0)
  ROOT y = c64[3,30] fft(x), fft_type=FFT, fft_length={30}
}
""",
    "window": """
HloModule window
ENTRY main {
  x = f32[1,9,9,3] parameter(0)
  k = f32[3,3,3,5] parameter(1)
  ROOT y = f32[1,9,9,5] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}
""",
    "symbolic": """
HloModule symbolic
ENTRY main {
  x = f32[?n,3] parameter(0)
  y = f32[?n,3] parameter(1)
  s = f32[?n,3] add(x, y)
  p = f32[?n,3] multiply(x, y)
  ROOT r = (f32[?n,3], f32[?n,3]) tuple(s, p)
}
""",
    "nothing": """
HloModule nothing
ENTRY main {
  x = f32[] parameter(0)
  ROOT r = f32[] copy(x)
}
""",
    **{name: ELEMENTWISE.format(name) for name in DTYPES},
}
"""Modules by name."""

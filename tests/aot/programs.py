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

MORE = {
    "math": """
HloModule math
ENTRY main {
  x = f32[3,37] parameter(0)
  y = f32[3,37] parameter(1)
  e = f32[3,37] exponential(x)
  l = f32[3,37] log-plus-one(e)
  t = f32[3,37] tanh(x)
  s = f32[3,37] sine(x)
  g = f32[3,37] logistic(y)
  r = f32[3,37] rsqrt(e)
  f = f32[3,37] floor(y)
  n = f32[3,37] round-nearest-even(y)
  w = f32[3,37] erf(x)
  a = f32[3,37] atan2(x, y)
  p = f32[3,37] power(e, y)
  b = f32[3,37] cbrt(y)
  ROOT all = (f32[3,37], f32[3,37], f32[3,37], f32[3,37], f32[3,37], f32[3,37], f32[3,37],
    f32[3,37], f32[3,37], f32[3,37], f32[3,37]) tuple(l, t, s, g, r, f, n, w, a, p, b)
}
""",
    "math64": """
HloModule math64
ENTRY main {
  x = f64[29] parameter(0)
  e = f64[29] exponential(x)
  l = f64[29] log-plus-one(e)
  t = f64[29] tanh(x)
  s = f64[29] cosine(x)
  q = f64[29] sqrt(e)
  ROOT all = (f64[29], f64[29], f64[29], f64[29]) tuple(l, t, s, q)
}
""",
    "reductions": f"""
HloModule reductions
{_ADD}
most {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  x = f32[300,257] parameter(0)
  zero = f32[] constant(0)
  least = f32[] constant(-inf)
  rows = f32[300] reduce(x, zero), dimensions={{1}}, to_apply=add
  columns = f32[257] reduce(x, least), dimensions={{0}}, to_apply=most
  total = f32[] reduce(x, zero), dimensions={{0,1}}, to_apply=add
  ROOT all = (f32[300], f32[257], f32[]) tuple(rows, columns, total)
}}
""",
    "batched": """
HloModule batched
ENTRY main {
  x = f32[4,33,65] parameter(0)
  y = f32[4,65,30] parameter(1)
  ROOT z = f32[4,33,30] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={1}
}
""",
    "integers": """
HloModule integers
ENTRY main {
  x = s8[19,40] parameter(0)
  y = s8[40,23] parameter(1)
  z = s32[19,23] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  seven = s32[] constant(7)
  by = s32[19,23] broadcast(seven), dimensions={}
  q = s32[19,23] divide(z, by)
  r = s32[19,23] remainder(z, by)
  ROOT all = (s32[19,23], s32[19,23], s32[19,23]) tuple(z, q, r)
}
""",
    "gather": """
HloModule gather
ENTRY main {
  x = f32[50,9] parameter(0)
  i = s32[14,1] parameter(1)
  ROOT y = f32[14,9] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,9}
}
""",
    "scatter": f"""
HloModule scatter
{_ADD}
ENTRY main {{
  x = f32[20,5] parameter(0)
  i = s32[31,1] parameter(1)
  u = f32[31,5] parameter(2)
  ROOT y = f32[20,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}
""",
    "pairs": """
HloModule pairs
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=GT
}
ENTRY main {
  k = s32[6,45] parameter(0)
  v = f32[6,45] parameter(1)
  ROOT y = (s32[6,45], f32[6,45]) sort(k, v), dimensions={1}, is_stable=true, to_apply=less
}
""",
    "moves": """
HloModule moves
ENTRY main {
  x = f32[6,10] parameter(0)
  y = f32[6,4] parameter(1)
  joined = f32[6,14] concatenate(x, y), dimensions={1}
  turned = f32[14,6] transpose(joined), dimensions={1,0}
  part = f32[7,6] slice(turned), slice={[0:14:2], [0:6]}
  zero = f32[] constant(0.5)
  padded = f32[9,8] pad(part, zero), padding=1_1x1_1
  back = f32[9,8] reverse(padded), dimensions={0}
  ROOT all = (f32[6,14], f32[14,6], f32[9,8]) tuple(joined, turned, back)
}
""",
    "joined": """
HloModule joined
ENTRY main {
  x = f32[40,50] parameter(0)
  y = f32[7,50] parameter(1)
  ROOT z = f32[47,50] concatenate(x, y), dimensions={0}
}
""",
    "pool": f"""
HloModule pool
{_ADD}
ENTRY main {{
  x = f32[2,12,12,3] parameter(0)
  zero = f32[] constant(0)
  ROOT y = f32[2,6,6,3] reduce-window(x, zero), window={{size=1x2x2x1 stride=1x2x2x1}}, to_apply=add
}}
""",
    "layers": """
HloModule layers
ENTRY main {
  x = f32[2,17,15,8] parameter(0)
  k = f32[3,3,8,16] parameter(1)
  y = f32[2,9,8,16] convolution(x, k), window={size=3x3 stride=2x2 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f
  zero = f32[] constant(0)
  zeros = f32[2,9,8,16] broadcast(zero), dimensions={}
  ROOT z = f32[2,9,8,16] maximum(y, zeros)
}
""",
    "halves": """
HloModule halves
ENTRY main {
  x = f16[11,24] parameter(0)
  y = bf16[24,13] parameter(1)
  a = f32[11,24] convert(x)
  b = f32[24,13] convert(y)
  c = f32[11,13] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = bf16[11,13] convert(c)
  e = f16[11,13] convert(c)
  f = s32[11,13] convert(c)
  ROOT all = (bf16[11,13], f16[11,13], s32[11,13]) tuple(d, e, f)
}
""",
    "branches": """
HloModule branches
double { x = f32[8] parameter(0)  ROOT y = f32[8] add(x, x) }
negated { x = f32[8] parameter(0)  ROOT y = f32[8] negate(x) }
ENTRY main {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT y = f32[8] conditional(p, x, x), true_computation=double, false_computation=negated
}
""",
}
"""Modules for other architectures beside those: what each of the emitters makes."""

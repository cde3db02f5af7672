# SPDX-License-Identifier: Apache-2.0
"""Kernels as text: together they have everything that a kernel's text can have."""

SAMPLES = {
    "every value": """loop over [@0 < n, @1 < 40] {
  b0 = in f32[40*n]
  b1 = in s32[n]
  b2 = out f32[40*n]
  b3 = local bf16[40]
  parameters [extent1, m]
  pass over [@2 < floordiv(m,2)+n, @3 < max(4,n)] {
    v0 = s64 index(min(@1,n)+mod(@0,3)-1)
    v1 = s32 load b1[@0]
    v2 = s64 index($0) with (v1)
    v3 = pred compare(v0, v2), direction=LT
    v4 = s64 convert(v1)
    v5 = f32 load b0[$0+2*$1+40*@0] with (v1, v4) if v3
    v6 = f32 exponential(v5), result_accuracy={mode=highest}
    v7 = f32 reduce-precision(v6), exponent_bits=5, mantissa_bits=10
    v8 = f32 constant(0.0)
    v9 = f32 argument(0)
    v10 = f32 argument(1)
    v11 = f32 add(v9, v10)
    r0 = reduce (v7) from (v8) by (v11)
  }
  running pass over [] {
    v12 = f32 load b0[40*@0+@1]
    v13 = s32 constant(-1)
    v14 = f32 argument(2)
    v15 = f32 maximum(v9, v14)
    v16 = s32 argument(1)
    v17 = s32 argument(3)
    v18 = s32 minimum(v16, v17)
    r1 = reduce (v12, v1) from (v8, v13) by (v15, v18)
    v19 = f32 reduced r0.0 over [@0, @1]
    v20 = bf16 convert(v19)
    b3[@1] = v20
    v21 = s32 reduced r1.1 over []
    b2[$0+40*@0] with (v21) = v19 if v3 by (v11)
    b2[40*@0] = v19 if v3
    b2[40*@0+1] = v19 by (v11)
  }
}
""",
    "serial": """serial loop over [] {
  b0 = out pred[1]
  pass over [] {
    v0 = pred constant(true)
    b0[0] = v0
  }
}
""",
    "constants": """loop over [] {
  b0 = out f64[1]
  pass over [] {
    v0 = pred constant(0x02)
    v1 = f32 constant(0x7fa00001)
    v2 = f64 convert(v1)
    v3 = f64 constant(-0.0)
    v4 = f64 add(v2, v3)
    v5 = s4 constant(-8)
    v6 = f64 convert(v5)
    v7 = f64 add(v4, v6)
    v8 = f4e2m1fn constant(1.5)
    v9 = f64 convert(v8)
    v10 = f64 add(v7, v9)
    v11 = c64 constant(1.5, -inf)
    v12 = f32 real(v11)
    v13 = f64 convert(v12)
    v14 = f64 add(v10, v13)
    v15 = f64 select(v0, v14, v3)
    v16 = u64 constant(18446744073709551615)
    v17 = f64 convert(v16)
    v18 = f64 add(v15, v17)
    v19 = c128 constant(0x7ff0000000000001c000000000000000)
    v20 = f64 imag(v19)
    v21 = f64 add(v18, v20)
    b0[0] = v21
  }
}
""",
    "convolution": """convolution b0 * b1, batch=2 sizes={5,5} results={5,5} \
channels=1 features=4 groups=1 window={size=3x3 pad=1_1x1_-2 rhs_dilate=1x2} of_filter as
contraction over [@g < 1, @m < 50, @n < 4, @k < 18] in f32 {
  b0 = in f32[50]
  b1 = in f32[72]
  b2 = out f32[200]
  patches [@mb < 2, @m0 < 25] by [@k0 < 18] along k
  v0 = f32 load b0[@m0+25*@mb]
  lhs = v0
  v1 = f32 load b1[4*@k+@n]
  rhs = v1
  v2 = f32 accumulator over [@g, @m, @n]
  v3 = f32 negate(v2)
  b2[4*@m+@n] = v3
}
""",
    "product": """contraction over [@b < n, @m < m, @n < 3, @k < k] in s32 {
  b0 = in s8[k*m*n]
  b1 = in s8[3*k*n]
  b2 = out s32[3*m*n]
  v0 = s8 load b0[@b*k*m+@m*k+@k]
  lhs = v0
  v1 = s8 load b1[3*@b*k+3*@k+@n]
  rhs = v1
  v2 = s32 accumulator over [@b, @m, @n]
  b2[3*@b*m+3*@m+@n] = v2
}
""",
    "patches along m": """contraction over [@g < 1, @m < 8, @n < 2, @k < 1] in f32 {
  b0 = in f32[8]
  b1 = in f32[2]
  b2 = out f32[16]
  patches [@m0 < 8] by [] along m
  v0 = f32 load b0[@m0]
  lhs = v0
  v1 = f32 load b1[@n]
  rhs = v1
  v2 = f32 accumulator over []
  b2[2*@m+@n] = v2
}
""",
    "attention": """attention over [@b < 3, @m < 64, @n < n, @k < 8, @e < 16] in f32 {
  b0 = in bf16[1536]
  b1 = in bf16[24*n]
  b2 = in bf16[48*n]
  b3 = out bf16[3072]
  b4 = out f32[192]
  v0 = bf16 load b0[512*@b+@k+8*@m]
  lhs = v0
  v1 = bf16 load b1[8*@b*n+@k+8*@n]
  rhs = v1
  v2 = bf16 load b2[16*@b*n+@e+16*@n]
  values = v2
  v3 = s64 index(@n)
  v4 = s64 index(@m)
  v5 = pred compare(v3, v4), direction=LE
  v6 = f32 accumulator over [@b, @m, @n]
  v7 = f32 constant(-inf)
  v8 = f32 select(v5, v6, v7)
  scores = v8
  v9 = f32 reduced r0.0 over [@b, @m]
  shift = v9
  v10 = f32 argument(0)
  v11 = f32 argument(1)
  v12 = f32 subtract(v10, v11)
  v13 = f32 exponential(v12)
  power = v13
  v14 = f32 accumulator over [@b, @e, @m]
  v15 = f32 reduced r1.0 over [@b, @m]
  v16 = f32 divide(v14, v15)
  v17 = bf16 convert(v16)
  b3[1024*@b+@e+16*@m] = v17
  b4[64*@b+@m] = v15
}
""",
    "sort": """sort (b2, b3) over [n, 100, 2*m] {
  b0 = in f32[200*m*n]
  b1 = in s32[200*m*n]
  b2 = out f32[200*m*n]
  b3 = out s32[200*m*n]
  v0 = f32 argument(0)
  v1 = f32 argument(1)
  v2 = pred compare(v0, v1), direction=LT, type=TOTALORDER
  before = v2
}
""",
    "fft": """fft IRFFT of 3*n times [16, 30] in c64 {
  b0 = in c64[768*n]
  b1 = out f32[1440*n]
}
""",
    "largest": """top-k largest 5 of [n, 100] {
  b0 = in bf16[100*n]
  b1 = out bf16[5*n]
  b2 = out s32[5*n]
}
""",
    "least": """top-k least 1 of [7, m] {
  b0 = in f32[7*m]
  b1 = out f32[7]
  b2 = out s32[7]
}
""",
}

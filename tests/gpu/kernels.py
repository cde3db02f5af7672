# SPDX-License-Identifier: Apache-2.0
"""One kernel of each strategy, and those that issue 15 names: for ptxas, and for devices."""

from __future__ import annotations

from dataclasses import dataclass

SOFTMAX = """p = f32[{rows},{length}] parameter(0)
  low = f32[] constant(-inf)
  m = f32[{rows}] reduce(p, low), dimensions={{1}}, to_apply=maximum_f32
  mb = f32[{rows},{length}] broadcast(m), dimensions={{0}}
  s = f32[{rows},{length}] subtract(p, mb)
  e = f32[{rows},{length}] exponential(s)
  zero = f32[] constant(0)
  t = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add_f32
  tb = f32[{rows},{length}] broadcast(t), dimensions={{0}}
  ROOT d = f32[{rows},{length}] divide(e, tb)"""

RESIDUAL = """r = f32[{rows},{length}] parameter(0)
  q = f32[{rows},{length}] parameter(1)
  a = f32[] parameter(2)
  ab = f32[{rows},{length}] broadcast(a), dimensions={{}}
  m = f32[{rows},{length}] multiply(ab, q)
  n = f32[{rows},{length}] subtract(r, m)
  o = f32[{rows},{length}] multiply(n, n)
  zero = f32[] constant(0)
  s = f32[{left}] reduce(o, zero), dimensions={{{over}}}, to_apply=add_f32
  sb = f32[{rows},{length}] broadcast(s), dimensions={{{kept}}}
  p = f32[{rows},{length}] multiply(sb, q)
  d = f32[{rows},{length}] add(n, p)
  ROOT t = (f32[{rows},{length}], f32[{rows},{length}]) tuple(n, d)"""
"""What its first pass stores its second pass reads."""

REDUCTION = """x = {type}[{dims}] parameter(0)
  init = {type}[] parameter(1)
  ROOT r = {type}[{left}] reduce(x, init), dimensions={{{over}}}, to_apply={op}_{type}"""

MATMUL = """a = {type}[{m},{k}] parameter(0)
  b = {type}[{k},{n}] parameter(1)
  ROOT d = {type}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""

SCATTER = """x = {type}[{n}] parameter(0)
  i = s32[{count},1] parameter(1)
  u = {type}[{count}] parameter(2)
  ROOT r = {type}[{n}] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={op}_{type}"""

CUMULATIVE_SUM = """x = f32[3,{length}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[3,{length}] reduce-window(x, zero),
    window={{size=1x{length} pad=0_0x{before}_0}}, to_apply=add_f32"""

GATHER = """x = f32[50,8] parameter(0)
  i = s32[23,1] parameter(1)
  g = f32[23,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,8}
  ROOT r = f32[23,8] negate(g)"""

ELEMENTWISE = """x = f32[{rows},37] parameter(0)
  y = f32[37] parameter(1)
  b = f32[{rows},37] broadcast(y), dimensions={{1}}
  s = f32[{rows},37] add(x, b)
  ROOT r = f32[{rows},37] tanh(s)"""

ARGMAX_SCATTER = """x = f32[9] parameter(0)
  p = s32[9] parameter(1)
  i = s32[{count},1] parameter(2)
  u = f32[{count}] parameter(3)
  q = s32[{count}] parameter(4)
  ROOT r = (f32[9], s32[9]) scatter(x, p, i, u, q), update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=argmax"""

TRANSPOSE = """x = {type}[{rows},{columns}] parameter(0)
  ROOT t = {type}[{columns},{rows}] transpose(x), dimensions={{1,0}}"""

SORT = """k = {type}[{dims}] parameter(0)
  v = s32[{dims}] parameter(1)
  ROOT r = ({type}[{dims}], s32[{dims}]) sort(k, v), dimensions={{{over}}}, is_stable=true,
    to_apply=before_{type}"""

TOPK = """x = {type}[{rows},{length}] parameter(0)
  ROOT r = ({type}[{rows},{k}], s32[{rows},{k}]) topk(x), k={k}, largest={largest}"""

FFT = """x = {of}[{dims}] parameter(0)
  ROOT r = {type}[{results}] fft(x), fft_type={kind}, fft_length={{{lengths}}}"""

EPILOGUE = """a = f32[3,40,21] parameter(0)
  b = f32[3,50,21] parameter(1)
  c = f32[50] parameter(2)
  r = f32[3,40,50] parameter(3)
  e = f32[3,40,21] negate(a)
  d = f32[3,40,50] dot(e, b), lhs_batch_dims={0}, rhs_batch_dims={0},
    lhs_contracting_dims={2}, rhs_contracting_dims={2}
  w = f32[3,40,50] broadcast(c), dimensions={2}
  s = f32[3,40,50] add(d, w)
  m = f32[3,40,50] multiply(s, r)
  ROOT t = f32[3,40,50] tanh(m)"""


@dataclass(frozen=True)
class Case:
    """A kernel: the body of its program, and how near its results are to the evaluator's."""

    body: str
    tolerance: float = 0.0


KERNELS = {
    "elementwise": Case(ELEMENTWISE.format(rows=64), 1e-6),
    "softmax of a warp": Case(SOFTMAX.format(rows=13, length=67), 1e-5),
    "softmax of a block": Case(SOFTMAX.format(rows=3, length=1500), 1e-5),
    "residuals of a warp": Case(RESIDUAL.format(rows=13, length=67, left=13, over=1, kept=0), 1e-5),
    "residuals of a block": Case(
        RESIDUAL.format(rows=3, length=1500, left=3, over=1, kept=0), 1e-5
    ),
    "residual of everything": Case(
        RESIDUAL.format(rows=71, length=300, left="", over="0,1", kept=""), 1e-4
    ),
    "column sum": Case(REDUCTION.format(type="f32", dims="97,33", left=33, over=0, op="add"), 1e-4),
    "sum of everything": Case(
        REDUCTION.format(type="f32", dims="200003", left="", over=0, op="add"), 1e-3
    ),
    "transpose": Case(TRANSPOSE.format(type="f32", rows=37, columns=41)),
    "cumulative sum": Case(CUMULATIVE_SUM.format(length=40, before=39), 1e-5),
    "scatter-add": Case(SCATTER.format(type="f32", n=13, count=67, op="add")),
    "long scatter-add": Case(SCATTER.format(type="f32", n=130, count=5000, op="add"), 1e-5),
    "scatter of pairs": Case(ARGMAX_SCATTER.format(count=300)),
    "gather": Case(GATHER),
    "sort of short rows": Case(SORT.format(type="f32", dims="5,100", over=1)),
    "sort of long rows": Case(SORT.format(type="f64", dims="2,2100", over=1)),
    "topk": Case(TOPK.format(type="f32", rows=3, length=9000, k=7, largest="true")),
    "fft": Case(
        FFT.format(of="c64", dims="3,128", type="c64", results="3,128", kind="FFT", lengths=128),
        1e-4,
    ),
    "fft of 3 5 7 11 13": Case(
        FFT.format(
            of="c128", dims="15015", type="c128", results="15015", kind="IFFT", lengths=15015
        ),
        1e-12,
    ),
    "long real fft": Case(
        FFT.format(of="f32", dims="8192", type="c64", results="4097", kind="RFFT", lengths=8192),
        1e-3,
    ),
    "fft of a large prime": Case(
        FFT.format(of="c64", dims="4099", type="c64", results="4099", kind="FFT", lengths=4099),
        1e-3,
    ),
    "matmul": Case(MATMUL.format(type="f32", m=67, k=35, n=129), 1e-4),
    "matmul of f64": Case(MATMUL.format(type="f64", m=67, k=35, n=129), 1e-12),
    "matmul with an epilogue": Case(EPILOGUE, 1e-4),
    "matmul of bf16": Case(MATMUL.format(type="bf16", m=67, k=35, n=129), 0.05),
    "matmul of bf16, aligned": Case(MATMUL.format(type="bf16", m=72, k=64, n=136), 0.05),
    "matmul of a long sum": Case(MATMUL.format(type="f32", m=30, k=1100, n=40), 1e-3),
    "matmul of few rows": Case(MATMUL.format(type="bf16", m=4, k=300, n=129), 0.05),
}

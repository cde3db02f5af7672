# SPDX-License-Identifier: Apache-2.0
"""Products on tensor cores: element types, layouts, edges, what is fused, machines without."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.kernels import MATMUL
from tests.gpu.programs import arguments, check, memory_of, program, wanted_of
from tests.gpu.simt import Emulation

from ingot.gpu.compiler import compile_kernel
from ingot.gpu.machine import machine_of
from ingot.kernel.ir import ContractionKernel

CORES, TILED = "tensor cores", "tiled contraction"

PRODUCT = """a = {type}[{lhs}] parameter(0)
  b = {type}[{rhs}] parameter(1)
  ROOT d = {result}[{m},{n}] dot(a, b), lhs_contracting_dims={{{l}}},
    rhs_contracting_dims={{{r}}}"""

TYPES = [("bf16", "f32", 1e-4), ("f16", "f32", 1e-4), ("s8", "s32", 0.0), ("f64", "f64", 1e-12)]


def product(types: tuple[str, str], m: object, k: object, n: object, layout: str = "nn") -> str:
    """Return a product; `t` says that an operand is transposed in memory."""
    lhs, over_lhs = (f"{k},{m}", 0) if layout[0] == "t" else (f"{m},{k}", 1)
    rhs, over_rhs = (f"{n},{k}", 1) if layout[1] == "t" else (f"{k},{n}", 0)
    return PRODUCT.format(
        type=types[0], result=types[1], lhs=lhs, rhs=rhs, m=m, n=n, l=over_lhs, r=over_rhs
    )


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("element", "result", "tolerance"), TYPES)
@pytest.mark.parametrize(("m", "k", "n"), [(67, 35, 29), (80, 96, 144)])
def test_types_and_layouts(
    element: str, result: str, tolerance: float, m: int, k: int, n: int, layout: str
) -> None:
    body = product((element, result), m, k, n, layout)
    kernel = check(body, CORES, tolerance=tolerance, seeds=(0,))
    assert kernel.launches[0].blocks == -(-m // 64) * -(-n // 64)


@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize(("element", "result", "tolerance"), TYPES)
def test_large_tiles(element: str, result: str, tolerance: float, layout: str) -> None:
    body = product((element, result), "?m", 80, 144, layout)
    kernel = check(body, CORES, {"m": 135}, tolerance=tolerance)
    tile = 64 if element == "f64" else 128
    assert f"m+{tile - 1}" in str(kernel.launches[0].blocks)


@pytest.mark.parametrize("n", [0, 1, 33, 129])
def test_symbolic_sizes(n: int) -> None:
    check(product(("bf16", "f32"), "?n", "?n", 40), CORES, {"n": n}, tolerance=1e-4)


def test_no_terms() -> None:
    check(product(("bf16", "f32"), 20, 0, 30), CORES)


def test_rows_of_several_chunks_of_symbolic_length() -> None:
    body = product(("bf16", "f32"), "?k", "?(8*k)", 72)
    check(body, CORES, {"k": 7}, tolerance=1e-4)
    assert compile_kernel(program(body).kernel).ptx.count("cp.async.cg") > 2


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_rows_that_are_aligned_are_copied_in_chunks(layout: str) -> None:
    aligned = compile_kernel(program(product(("bf16", "f32"), 72, 64, 72, layout)).kernel)
    assert "cp.async.cg.shared.global" in aligned.ptx
    assert "ldmatrix.sync" in aligned.ptx
    assert "mma.sync.aligned.m16n8k16" in aligned.ptx
    odd = compile_kernel(program(product(("bf16", "f32"), 71, 61, 71, layout)).kernel)
    assert "cp.async.cg.shared.global" not in odd.ptx


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_buffers_that_are_not_aligned(layout: str) -> None:
    given = program(product(("bf16", "f32"), 72, 64, 72, layout))
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    emulation = Emulation(compile_kernel(given.kernel))
    found = emulation.run(memory_of(given, inputs, wanted), {}, 0, shift=2)
    np.testing.assert_allclose(found[-1], wanted[0], rtol=1e-4, atol=1e-4)


def test_a_copy_that_is_not_waited_for_is_noticed() -> None:
    given = program(product(("bf16", "f32"), 64, 64, 64))
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    compiled = compile_kernel(given.kernel)
    lines = compiled.llvm_ir.splitlines()
    without = [line for line in lines if "call void @llvm.nvvm.cp.async.wait" not in line]
    assert len(without) < len(lines)
    emulation = Emulation(compiled, "\n".join(without))
    found = emulation.run(memory_of(given, inputs, wanted), {}, 0)
    assert not np.allclose(found[-1], wanted[0], rtol=1e-3)


@pytest.mark.parametrize("number", [0, 1])
def test_a_barrier_that_is_missing_is_noticed(number: int) -> None:
    given = program(product(("bf16", "f32"), 64, 128, 64))
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    compiled = compile_kernel(given.kernel)
    parts = compiled.llvm_ir.split("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n")
    assert len(parts) == 3  # before the loop, and in it
    parts[number : number + 2] = [parts[number] + parts[number + 1]]
    broken = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n".join(parts)
    emulation = Emulation(compiled, broken)
    found = [emulation.run(memory_of(given, inputs, wanted), {}, seed)[-1] for seed in range(4)]
    is_right = [np.allclose(one, wanted[0], rtol=1e-3, atol=1e-3) for one in found]
    assert not all(is_right)


def test_prologues_and_epilogues() -> None:
    body = """a = bf16[3,40,21] parameter(0)
      b = bf16[3,50,21] parameter(1)
      c = f32[50] parameter(2)
      r = f32[3,40,50] parameter(3)
      e = bf16[3,40,21] tanh(a)
      d = f32[3,40,50] dot(e, b), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={2}
      w = f32[3,40,50] broadcast(c), dimensions={2}
      s = f32[3,40,50] add(d, w)
      m = f32[3,40,50] multiply(s, r)
      ROOT t = bf16[3,40,50] convert(m)"""
    check(body, CORES, tolerance=0.01)


def test_operands_that_were_made_wider() -> None:
    body = """a = bf16[40,48] parameter(0)
      b = bf16[48,72] parameter(1)
      x = f32[40,48] convert(a)
      y = f32[48,72] convert(b)
      ROOT d = f32[40,72] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    check(body, CORES, tolerance=1e-4)


CONVOLUTION = """x = bf16[2,9,10,{channels}] parameter(0)
  k = bf16[3,3,{channels},24] parameter(1)
  ROOT r = f32[2,9,10,24] convolution(x, k), window={{size=3x3 pad=1_1x{pad}}},
    dim_labels=b01f_01io->b01f"""


@pytest.mark.parametrize(("channels", "copies"), [(3, 1), (4, 2), (8, 4), (16, 4)])
def test_convolution(channels: int, copies: int) -> None:
    body = CONVOLUTION.format(channels=channels, pad="1_1")
    check(body, CORES, tolerance=1e-3, seeds=(0, 1))
    # Patches of whole chunks are copied, zeros come in place of what lies around the image.
    assert compile_kernel(program(body).kernel).ptx.count("cp.async.cg") == copies


INPUT_GRADIENT = """g = bf16[2,5,5,24] parameter(0)
  k = bf16[3,3,24,16] parameter(1)
  ROOT r = f32[2,10,10,16] convolution(g, k), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2},
    dim_labels=b01f_01io->b01f"""

FILTER_GRADIENT = """x = bf16[9,9,{channels},16] parameter(0)
  g = bf16[9,9,16,24] parameter(1)
  ROOT r = f32[3,3,{channels},24] convolution(x, g), window={{size=9x9 pad=1_1x1_1}},
    dim_labels=01bf_01io->01bf"""


def test_gradient_of_an_input() -> None:
    check(INPUT_GRADIENT, CORES, tolerance=1e-3)
    assert compile_kernel(program(INPUT_GRADIENT).kernel).ptx.count("cp.async.cg") == 4


@pytest.mark.parametrize("channels", [12, 16])
def test_gradient_of_a_filter(channels: int) -> None:
    body = FILTER_GRADIENT.format(channels=channels)
    assert isinstance(program(body).kernel, ContractionKernel)
    check(body, f"{CORES}, then a thread per point", tolerance=1e-3)


def test_grouped_convolution() -> None:
    body = """x = bf16[2,7,7,16] parameter(0)
      k = bf16[3,3,8,32] parameter(1)
      ROOT r = f32[2,7,7,32] convolution(x, k), window={size=3x3 pad=1_1x1_1},
        dim_labels=b01f_01io->b01f, feature_group_count=2"""
    check(body, CORES, tolerance=1e-3)


@pytest.mark.parametrize(("element", "result", "tolerance"), TYPES)
@pytest.mark.parametrize("k", [1024, 1500])
def test_long_sums_are_cut_into_parts(element: str, result: str, tolerance: float, k: int) -> None:
    body = product((element, result), 30, k, 40)
    wide = 10 * tolerance  # of sums of so many terms
    kernel = check(body, f"{CORES}, then a thread per point", tolerance=wide)
    assert [launch.blocks for launch in kernel.launches] == [2, 5]
    (scratch,) = kernel.scratch
    assert scratch.size == 2 * 30 * 40


def test_parts_have_their_epilogue_once() -> None:
    body = """a = f32[2,20,1100] parameter(0)
      b = f32[2,1100,30] parameter(1)
      c = f32[2,20,30] parameter(2)
      d = f32[2,20,30] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1}
      s = f32[2,20,30] add(d, c)
      ROOT t = f32[2,20,30] tanh(s)"""
    check(body, f"{TILED}, then a thread per point", tolerance=1e-3)


@pytest.mark.parametrize(("element", "reason"), [
    ("f32", "tensor cores do not add products of f32 and f32 up in f32"),
    ("s32", "tensor cores do not add products of s32 and s32 up in s32"),
])  # fmt: skip
def test_types_without(element: str, reason: str) -> None:
    kernel = check(MATMUL.format(type=element, m=20, k=24, n=40), TILED, tolerance=1e-4)
    assert dict(kernel.refused)[CORES] == reason


def test_machines_without() -> None:
    given = program(product(("bf16", "f32"), 20, 24, 40))
    kernel = compile_kernel(given.kernel, machine_of("sm_75")).kernel
    assert kernel.strategy == TILED
    assert dict(kernel.refused)[CORES] == "sm_75 has no tensor cores for bf16"

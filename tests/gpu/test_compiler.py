# SPDX-License-Identifier: Apache-2.0
"""Kernels of whole modules: what is compiled, what is refused, what is printed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.gpu.kernels import GATHER, KERNELS, SCATTER
from tests.gpu.programs import COMPUTATIONS, check_result, program
from tests.gpu.simt import Emulation

import ingot
from ingot.__main__ import main
from ingot.formats.hlo_text import parse_hlo
from ingot.gpu.compiler import compile_kernel, verify_stages
from ingot.gpu.intrinsics import from_lane_xor
from ingot.gpu.kernels import kernels_of, text_of
from ingot.gpu.machine import MACHINES, RATES, machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.in_order import owned
from ingot.hlo.module import Module
from ingot.host.kernel_info import kernel_info
from ingot.host.sites import scheduled_fusions
from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.verifier import verify_kernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.support.diagnostics import InternalError, UnsupportedError
from ingot.support.records import replace

MLP = """x = f32[50,30] parameter(0)
  w = f32[30,40] parameter(1)
  b = f32[40] parameter(2)
  d = f32[50,40] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[50,40] broadcast(b), dimensions={1}
  s = f32[50,40] add(d, bb)
  t = f32[50,40] tanh(s)
  zero = f32[] constant(0)
  ROOT r = f32[40] reduce(t, zero), dimensions={0}, to_apply=add_f32"""


def _optimized(body: str) -> Module:
    text = f"HloModule m\n{COMPUTATIONS}\nENTRY e {{ {body} }}"
    executable = ingot.compile(parse_hlo(text))
    assert isinstance(executable, ingot.Executable)
    return executable.module


def test_every_fusion_of_a_module_is_compiled() -> None:
    module = _optimized(MLP)
    found = kernels_of(module).kernels.values()
    assert [kernel.strategy for kernel in found] == ["tiled contraction", "columns"]
    ptx = text_of(module, "ptx")
    for kernel in found:
        assert f".visible .entry {kernel.launches[0].symbol}" in ptx
    assert ".target sm_90" in ptx


def test_text_says_how_kernels_are_launched() -> None:
    module = _optimized(MLP)
    heads = [line for line in text_of(module, "ptx").splitlines() if " threads" in line]
    assert [head.partition(": ")[2] for head in heads] == [
        "tiled contraction, 1 x 256 threads, 17408 bytes of shared memory",
        "columns, 2 x 256 threads, 1024 bytes of shared memory",
    ]
    assert text_of(module, "gpu_llvm").count("define ptx_kernel") == 2


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"INGOT0323.*sm_12"):
        machine_of("sm_12")


def test_equal_kernels_are_equal_text() -> None:
    one, other = (compile_kernel(program(GATHER).kernel) for _ in range(2))
    assert one == other


def test_the_ptx_of_a_machine_names_it() -> None:
    kernel = compile_kernel(program(GATHER).kernel, machine_of("sm_80"))
    assert ".version 7.0" in kernel.ptx
    assert ".target sm_80" in kernel.ptx


def test_owners_make_each_update_once() -> None:
    kernel = program(SCATTER.format(type="s32", n=13, count=67, op="subtract")).kernel
    assert isinstance(kernel, LoopKernel)
    choose = np.random.default_rng(0)
    held, values = choose.integers(0, 9, 13), choose.integers(0, 9, 67)
    memory = [held, choose.integers(-3, 20, 67), values, held]
    memory = [each.astype(np.int32) for each in memory]
    rewritten = owned(kernel, 4)
    verify_kernel(rewritten)
    (wanted,), (found,) = (evaluate_kernel(each, memory) for each in (kernel, rewritten))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("type", [lt.I1, lt.I8, lt.F16, lt.BF16, lt.I32, lt.F32, lt.F64, lt.I128])
def test_shuffles_of_every_type(type: lt.Type) -> None:
    f = ModuleBuilder("m", "nvptx").function("f", type, [("x", type)])
    moved = from_lane_xor(f, f.params[0], 4)
    assert moved.type is type
    words = max(1, type.bits // 32)
    assert sum("shfl.sync.bfly" in line for line in f.lines) == words


def test_an_intrinsic_that_is_not_listed_is_our_error() -> None:
    # LLVM would end the process.
    f = ModuleBuilder("m", "nvptx").function("f", lt.F32, [("x", lt.F32)])
    with pytest.raises(InternalError, match="not in the whitelist of nvptx"):
        f.intrinsic("llvm.exp", lt.F32, f.params)


def test_a_transpose_without_its_barrier_is_caught() -> None:
    given = program(KERNELS["transpose"].body)
    kernel = compile_kernel(given.kernel)
    barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
    assert kernel.llvm_ir.count(barrier) == 1
    broken = Emulation(kernel, kernel.llvm_ir.replace(barrier, ""))
    x = np.random.default_rng(0).standard_normal((37, 41)).astype(np.float32)
    *_, found = broken.run([x, np.zeros((41, 37), np.float32)], {}, 0)
    with pytest.raises(AssertionError):
        check_result(found, x.T, 0)


def test_opt_prints_both_stages(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(f"HloModule m\n{COMPUTATIONS}\nENTRY e {{ {MLP} }}")
    for stage, word in (("ptx", b".visible .entry"), ("gpu_llvm", b"define ptx_kernel")):
        assert main(["opt", str(path), f"--stage={stage}"]) == 0
        assert capfdbinary.readouterr().out.count(word) == 2


@pytest.mark.parametrize("name", ["sum of everything", "matmul of a long sum", "long scatter-add"])
def test_the_kernels_of_launches_are_verified(name: str) -> None:
    """What a schedule makes of a kernel for one of several launches is valid, or the error says."""
    schedule = schedule_kernel(program(KERNELS[name].body).kernel, machine_of())
    assert len(schedule.stages) > 1
    verify_stages(schedule)
    last = schedule.stages[-1]
    kernel = last.kernel
    assert isinstance(kernel, LoopKernel)
    grid = tuple(replace(axis, name=f"n{number}") for number, axis in enumerate(kernel.grid))
    if not grid:
        grid = (Axis("n", 1),)
    spoiled = replace(last, kernel=replace(kernel, grid=grid))
    with pytest.raises(InternalError, match="axis_name") as raised:
        verify_stages(replace(schedule, stages=(*schedule.stages[:-1], spoiled)))
    assert raised.value.diagnostic.pass_name == last.strategy.name


def test_every_machine_has_rates() -> None:
    assert set(RATES) == set(MACHINES)


def test_kernels_say_what_limits_them() -> None:
    """By the rates of the machine: a large product by its operations, other work by its bytes."""
    body = """x = f32[4096,4096] parameter(0)
  d = f32[4096,4096] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[4096,4096] transpose(x), dimensions={1,0}
  z = f32[3] parameter(1)
  n = f32[3] negate(z)
  ROOT t = (f32[4096,4096], f32[4096,4096], f32[3]) tuple(d, y, n)"""
    module = _optimized(body)
    kernels = kernels_of(module)
    rows = [kernel_info(fusion, kernels) for fusion in scheduled_fusions(module)]
    bounds = {row.opcodes[-1]: row.bound for row in rows}
    assert bounds == {"dot": "compute", "transpose": "memory", "negate": "latency"}

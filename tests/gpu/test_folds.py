# SPDX-License-Identifier: Apache-2.0
"""Folds that threads share: rows of a warp or of a block, columns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.kernels import KERNELS, REDUCTION, SOFTMAX
from tests.gpu.programs import SEEDS, arguments, check, check_result, program
from tests.gpu.simt import EmulatedModule, Emulation, StuckError

from ingot.evaluator import evaluate
from ingot.gpu.compiler import compile_kernel

WARP, BLOCK, COLUMNS = "a warp per row", "a block per row", "columns"


@pytest.mark.parametrize(("rows", "length", "strategy"), [
    (13, 67, WARP), (5, 1024, WARP), (3, 1500, BLOCK), ("?n", 97, WARP), (2, "?m", BLOCK),
])  # fmt: skip
def test_softmax(rows: int | str, length: int | str, strategy: str) -> None:
    sizes = {"n": 11, "m": 300}
    kernel = check(SOFTMAX.format(rows=rows, length=length), strategy, sizes, tolerance=1e-5)
    assert "a thread per point" not in dict(kernel.refused)


@pytest.mark.parametrize("n", [0, 1, 31, 257])
def test_sum_of_a_row_of_any_length(n: int) -> None:
    body = REDUCTION.format(type="f32", dims="?m,?n", left="?m", over="1", op="add")
    check(body, BLOCK, {"m": 3, "n": n}, tolerance=1e-4)


@pytest.mark.parametrize(("element", "op", "tolerance"), [
    ("f32", "maximum", 0.0), ("f64", "add", 1e-12), ("s32", "add", 0.0), ("s64", "maximum", 0.0),
    ("bf16", "maximum", 0.0), ("bf16", "add", 0.1), ("s8", "add", 0.0), ("pred", "and", 0.0),
    ("f64", "multiply", 1e-9),
])  # fmt: skip
@pytest.mark.parametrize("length", [53, 1103])
def test_element_types(element: str, op: str, tolerance: float, length: int) -> None:
    body = REDUCTION.format(type=element, dims=f"3,{length}", left="3", over="1", op=op)
    check(body, WARP if length < 1024 else BLOCK, tolerance=tolerance)


def test_sum_of_everything() -> None:
    check(
        REDUCTION.format(type="f32", dims="17,211", left="", over="0,1", op="add"),
        BLOCK,
        tolerance=1e-4,
    )


def test_argmax() -> None:
    body = """x = f32[6,300] parameter(0)
      i = s32[6,300] iota(), iota_dimension=1
      low = f32[] constant(-inf)
      first = s32[] constant(0)
      ROOT r = (f32[6], s32[6]) reduce(x, i, low, first), dimensions={1}, to_apply=argmax"""
    check(body, WARP)


@pytest.mark.parametrize(("rows", "columns"), [(97, 32), (97, 33), (331, 1), (64, 150)])
def test_sum_of_columns(rows: int, columns: int) -> None:
    body = REDUCTION.format(type="f32", dims=f"{rows},{columns}", left=columns, over="0", op="add")
    check(body, COLUMNS if columns > 1 else WARP, tolerance=1e-4)


@pytest.mark.parametrize("n", [0, 1, 40])
def test_columns_of_symbolic_sizes(n: int) -> None:
    body = REDUCTION.format(type="s32", dims="3,?n,?n", left="3,?n", over="1", op="add")
    check(body, COLUMNS, {"n": n})


def test_softmax_of_columns() -> None:
    body = """p = f32[61,45] parameter(0)
      zero = f32[] constant(0)
      e = f32[61,45] exponential(p)
      t = f32[45] reduce(e, zero), dimensions={0}, to_apply=add_f32
      tb = f32[61,45] broadcast(t), dimensions={1}
      ROOT d = f32[61,45] divide(e, tb)"""
    check(body, COLUMNS, tolerance=1e-5)


def test_folds_in_order_have_a_thread_each() -> None:
    body = REDUCTION.format(type="f32", dims="3,100", left="3", over="1", op="greater")
    kernel = check(body, "a thread per point")
    assert dict(kernel.refused)[WARP] == "its folds take their elements in order"


@pytest.mark.parametrize("line", [1, 2])
def test_a_barrier_left_out_is_caught(line: int) -> None:
    given = program(SOFTMAX.format(rows=2, length=1500))
    kernel = compile_kernel(given.kernel)
    lines = kernel.llvm_ir.splitlines()
    barriers = [n for n, text in enumerate(lines) if "call void @llvm.nvvm.barrier" in text]
    assert len(barriers) >= 2
    del lines[barriers[line - 1]]
    emulation = Emulation(kernel, "\n".join(lines))
    inputs = arguments(given, {}, 0)
    wanted = evaluate(given.module, inputs)
    wrong = 0
    for seed in SEEDS:
        try:
            *_, found = emulation.run([*inputs, np.zeros_like(wanted)], {}, seed)
            check_result(found, np.asarray(wanted), 1e-5)
        except (AssertionError, StuckError):
            wrong += 1
    assert wrong == len(SEEDS)


DIVERGENT = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.bar.warp.sync(i32)
define ptx_kernel void @divergent(ptr addrspace(1) %b0) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = icmp ult i32 %thread, 16
  br i1 %low, label %wait, label %out
wait:
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  br label %out
out:
  ret void
}
"""


def test_a_barrier_that_some_threads_miss_is_an_error() -> None:
    memory = np.zeros(1, np.float32)
    with pytest.raises(StuckError):
        EmulatedModule(DIVERGENT).launch(
            "divergent", [memory.ctypes.data], (1, 32), np.random.default_rng(0)
        )


def test_folds_that_do_not_fit_shared_memory_are_a_threads_own() -> None:
    count = 26
    sums = [
        f"s{n} = f64[40] reduce(x{n}, z), dimensions={{0}}, to_apply=add_f64" for n in range(count)
    ]
    body = "\n".join(
        [
            *(f"x{n} = f64[64,40] parameter({n})" for n in range(count)),
            "z = f64[] constant(0)",
            *sums,
            f"ROOT r = ({', '.join(['f64[40]'] * count)}) "
            f"tuple({', '.join(f's{n}' for n in range(count))})",
        ]
    )
    kernel = check(body, "a thread per point", tolerance=1e-12, seeds=(0,))
    assert dict(kernel.refused)[COLUMNS] == "its folds do not fit shared memory"
    assert kernel.launches[0].shared_bytes == 0


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("residuals of a warp", WARP),
        ("residuals of a block", BLOCK),
        ("residual of everything", BLOCK),
    ],
)
def test_later_passes_read_what_earlier_ones_stored(name: str, strategy: str) -> None:
    case = KERNELS[name]
    check(case.body, strategy, tolerance=case.tolerance)

# SPDX-License-Identifier: Apache-2.0
"""The kernels of pieces: each is valid, and together they store what the whole kernel stores."""

from __future__ import annotations

import pytest
from tests.kernel.programs import fused
from tests.kernel.test_kernel_passes import memory_of

from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.pipeline import run_kernel_passes
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.machine_model import Vectors

PROGRAMS = {
    "beside": """x = f32[3,20] parameter(0)
  y = f32[3,30] parameter(1)
  n = f32[3,30] negate(y)
  ROOT r = f32[3,50] concatenate(x, n), dimensions={1}""",
    "beside, of some size": """x = f32[3,?n] parameter(0)
  y = f32[3,?m] parameter(1)
  n = f32[3,?m] negate(y)
  ROOT r = f32[3,?(m+n)] concatenate(x, n), dimensions={1}""",
    "below and beside": """x = f32[4,40] parameter(0)
  y = f32[3,40] parameter(1)
  n = f32[3,40] negate(y)
  b = f32[7,40] concatenate(x, n), dimensions={0}
  z = f32[] constant(2)
  p = f32[9,50] pad(b, z), padding=1_1x4_6
  ROOT r = f32[9,50] multiply(p, p)""",
    "padded inside": """x = f32[40] parameter(0)
  z = f32[] constant(-1)
  p = f32[90] pad(x, z), padding=5_6_1
  ROOT r = f32[90] negate(p)""",
    "window": """x = f32[64] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[64] reduce-window(x, zero), window={size=3 pad=1_1}, to_apply=add""",
}
SIZES = {"n": 0, "m": 3}


def _cut(program: str) -> tuple[LoopKernel, Pieces]:
    kernel = run_kernel_passes(build_loop_kernel(fused(PROGRAMS[program])))
    strategy = schedule_loops(kernel, Vectors(256, 16)).strategy
    assert isinstance(strategy, Pieces)
    return kernel, strategy


@pytest.mark.parametrize("sizes", [SIZES, {"n": 7, "m": 3}], ids=str)
@pytest.mark.parametrize("program", PROGRAMS)
def test_pieces_store_what_the_kernel_stores(program: str, sizes: dict[str, int]) -> None:
    kernel, strategy = _cut(program)
    *inputs, result = memory_of(kernel, sizes)
    (wanted,) = evaluate_kernel(kernel, [*inputs, result], sizes)
    for loop in strategy.loops:
        verify_kernel(loop.kernel, "pieces")
        (result,) = evaluate_kernel(loop.kernel, [*inputs, result], sizes)
    assert result.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("program", ["beside", "beside, of some size", "below and beside"])
def test_pieces_have_no_masks(program: str) -> None:
    kernel, strategy = _cut(program)
    assert any(expr.op == "compare" for expr in walk(kernel.exprs))
    for loop in strategy.loops:
        assert not any(expr.op == "compare" for expr in walk(loop.kernel.exprs))


def test_neighbours_that_compute_the_same_are_one_piece() -> None:
    """Padding above is one piece for all columns; each band of rows has its own."""
    _, strategy = _cut("below and beside")
    assert [len(band.loops) for band in strategy.bands] == [1, 3, 3, 1]

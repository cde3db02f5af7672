# SPDX-License-Identifier: Apache-2.0
"""Parts of short rows, and which kernels walk rows in a nest of loops."""

from __future__ import annotations

import pytest
from tests.kernel.programs import fused

from ingot.kernel.analysis.row_nests import parts_of, row_nest
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.pipeline import run_kernel_passes
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.short_rows import RowNest
from ingot.llvm.machine_model import Vectors


@pytest.mark.parametrize("lanes", [2, 4, 8, 32])
@pytest.mark.parametrize("may_overlap", [False, True])
def test_parts_cover_each_row(lanes: int, may_overlap: bool) -> None:
    for length in range(1, 70):
        parts = parts_of(length, lanes, may_overlap=may_overlap)
        places = [start + lane for start, count in parts for lane in range(count)]
        assert sorted(set(places)) == list(range(length))
        assert may_overlap or len(places) == length
        assert all(count <= lanes and count.bit_count() == 1 for _, count in parts)


def test_last_part_begins_sooner_where_that_saves_parts() -> None:
    assert parts_of(17, 32, may_overlap=True) == ((0, 16), (16, 1))
    assert parts_of(15, 32, may_overlap=True) == ((0, 8), (7, 8))
    assert parts_of(15, 32, may_overlap=False) == ((0, 8), (8, 4), (12, 2), (14, 1))


def _kernel(body: str):
    return run_kernel_passes(build_loop_kernel(fused(body)))


def _refusal(body: str) -> str:
    kernel = _kernel(body)
    found = row_nest(kernel, kernel.grid[-1], 8)
    assert isinstance(found, str)
    return found


def test_operand_that_may_be_overwritten_is_read_once() -> None:
    kernel = _kernel("""x = f32[40,3,13] parameter(0)
  y = f32[40,13] parameter(1)
  rows = f32[40,3,13] broadcast(y), dimensions={0,2}
  ROOT r = f32[40,3,13] add(x, rows)""")
    strategy = schedule_loops(kernel, Vectors(256, 16)).strategy
    assert isinstance(strategy, RowNest)
    assert strategy.parts == ((0, 8), (8, 4), (12, 1))


def test_reasons_of_refusals() -> None:
    assert "last axis of several" in _refusal("""x = f32[40] parameter(0)
  ROOT r = f32[40] negate(x)""")
    assert "2 to 256" in _refusal("""x = f32[40,300] parameter(0)
  y = f32[300] parameter(1)
  z = f32[40,300] broadcast(y), dimensions={1}
  ROOT r = f32[40,300] add(x, z)""")
    assert "expensive" in _refusal("""x = f32[40,17] parameter(0)
  y = f32[17] parameter(1)
  z = f32[40,17] broadcast(y), dimensions={1}
  s = f32[40,17] add(x, z)
  ROOT r = f32[40,17] exponential(s)""")
    assert "whole vectors" in _refusal("""x = f32[40,64] parameter(0)
  y = f32[64] parameter(1)
  z = f32[40,64] broadcast(y), dimensions={1}
  ROOT r = f32[40,64] add(x, z)""")

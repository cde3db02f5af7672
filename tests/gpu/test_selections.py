# SPDX-License-Identifier: Apache-2.0
"""The first elements of rows: selected a tile at a time, in parts, or by sorting rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.kernels import TOPK
from tests.gpu.programs import check, program
from tests.gpu.simt import Emulation

from ingot.evaluator import evaluate
from ingot.gpu.compiler import compile_kernel
from ingot.gpu.machine import machine_of
from ingot.gpu.schedule.decide import schedule_kernel
from ingot.gpu.schedule.text import schedule_text

SELECTED = "selection"


def test_a_schedule_says_by_which_comparison_it_selects() -> None:
    given = program(TOPK.format(type="f32", rows=2, length=5, k=3, largest="true"))
    first = schedule_text(given.kernel, schedule_kernel(given.kernel, machine_of())).split("\n")[0]
    assert first.startswith(f"{SELECTED} comparator=compare[")
    assert "(argument[0], argument[1])" in first


@pytest.mark.parametrize(("rows", "length", "k"), [
    (3, 1, 1), (5, 7, 3), (2, 100, 100), (1, 1500, 512), (70, 33, 5), (2, 9000, 7), (1, 8192, 512),
    (1, 20_000, 1), ("?n", 300, 4), (2, "?n", 3), ("?n", "?m", 5), (1, "?m", 300), (0, 9000, 3),
])  # fmt: skip
@pytest.mark.parametrize("largest", ["true", "false"])
def test_rows_of_any_length(rows: int | str, length: int | str, k: int, largest: str) -> None:
    # Few values, so that equal ones show that those of lesser places are taken.
    body = TOPK.format(type="s32", rows=rows, length=length, k=k, largest=largest)
    check(body, SELECTED, {"n": 3, "m": 9001}, below=9, seeds=(0,))


@pytest.mark.parametrize("element", ["f64", "bf16", "f16", "s8", "pred", "s64"])
def test_element_types(element: str) -> None:
    body = TOPK.format(type=element, rows=2, length=1300, k=20, largest="true")
    check(body, SELECTED, seeds=(0,))


@pytest.mark.parametrize(("length", "k"), [(1000, 700), (2100, 513), ("?n", 600)])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_many_wanted_elements_are_sorted(length: int | str, k: int, largest: str) -> None:
    body = TOPK.format(type="f32", rows=2, length=length, k=k, largest=largest)
    merges = "" if length == 1000 else ", then merged runs"
    strategy = f"a thread per point, then sorted tiles{merges}"
    check(body, strategy, {"n": 1100}, seeds=(0,))


@pytest.mark.parametrize(("length", "k"), [(300, 40), (9000, 40), (1100, 600)])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_nan_and_signed_zeros_are_in_total_order(length: int, k: int, largest: str) -> None:
    given = program(TOPK.format(type="f32", rows=1, length=length, k=k, largest=largest))
    choose = np.random.default_rng(0)
    values = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0], np.float32)
    x = choose.choice(values, (1, length))
    wanted = evaluate(given.module, [x])
    results = [np.zeros((1, k), np.float32), np.zeros((1, k), np.int32)]
    _, found, places = Emulation(compile_kernel(given.kernel)).run([x, *results], {}, 0)
    assert found.tobytes() == np.asarray(wanted[0]).tobytes()
    np.testing.assert_array_equal(places, wanted[1])

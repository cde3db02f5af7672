# SPDX-License-Identifier: Apache-2.0
"""`make bench-libraries`: its rows, its tables, and kernels on every library, in worker processes.

Tables are made of figures that are given; no test looks at a time.
"""

from __future__ import annotations

from datetime import date

import pytest
from benchmarks.common.process import WorkerProcess
from benchmarks.common.programs import Timing
from benchmarks.kernels.libraries import ENGINES, OURS, Measured, Plan, measure, start, table
from benchmarks.kernels.library_functions import jax_functions, torch_functions
from benchmarks.kernels.library_rows import FIXED, drawn

DAY = date(2026, 11, 26)


def test_the_day_draws_the_rows():
    names = [row.name for row in drawn(DAY)]
    assert names == [row.name for row in drawn(DAY)]
    assert names != [row.name for row in drawn(date(2026, 11, 27))]
    every = [row.name for row in (*FIXED, *drawn(DAY))]
    assert len(set(every)) == len(every)


def test_the_table_says_who_is_ahead():
    rows = [
        Measured("sort", Timing([1.0, 1.0]), "NumPy", Timing([0.5, 0.5])),
        Measured("sum", Timing([1.0, 1.0]), "PyTorch", Timing([8.0, 8.0])),
    ]
    cells = table(rows)
    assert cells[1] == ["sort", "1 s", "NumPy", "500 ms", "0.50 !"]
    assert cells[-1][-1] == "2.00"


def test_every_function_has_a_row_and_a_library():
    functions = {row.function for row in FIXED}
    assert functions == set(jax_functions())
    assert functions == set(torch_functions())
    assert {row.function for row in drawn(DAY)} <= functions


@pytest.mark.slow
@pytest.mark.long
def test_small_kernels_on_every_library():
    """Results agree, and the best library is named."""
    crew = {name: WorkerProcess(name, start, (name, 1, DAY), quiet=True) for name in ENGINES}
    try:
        for row in drawn(DAY):
            if row.function in ("sort", "argsort", "rfft", "softmax", "sum of columns"):
                found = measure(row, crew, Plan(1, 0.001))
                assert found.library in set(ENGINES) - {OURS}
    finally:
        for worker in crew.values():
            worker.close()

# SPDX-License-Identifier: Apache-2.0
"""`make bench-tf`: what its tables and checks say, and one row in worker processes.

Tables are made of figures that are given; no test looks at a time.
"""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.common.programs import Timing
from benchmarks.common.whole import Measured, Side, Task, check, crew
from benchmarks.common.whole_rows import keep, load, save
from benchmarks.with_tensorflow.report import ENGINES, OURS, REFERENCE, XLA, page, sections
from benchmarks.with_tensorflow.whole import Plan, measure, start, tasks

TASK = Task("model", "train", 2, 1e-3, 5)


def sides() -> dict[str, Side]:
    found = {
        "TensorFlow": Side(Timing([2.0, 20.0, 2.0]), 0.0, 1 << 20, 3.0),
        "XLA": Side(Timing([0.5, 5.0, 0.5]), 8.0, 3 << 20, 9.0),
        OURS: Side(Timing([1.0, 10.0, 1.0]), 2.0, 2 << 20, 2.5, 1),
    }
    assert set(found) == set(ENGINES)
    return found


def measured(threads: int) -> Measured:
    return Measured(TASK, threads, "2026-11-23", 0.5, sides())


def test_tables_say_who_is_ahead_and_what_it_costs():
    (_, steps), (_, costs) = sections([measured(1)])
    assert steps[1] == ["model", "train", "2", "1 s", "2 s", "500 ms", "2.00", "0.50 !"]
    assert steps[2][-2:] == ["2.00", "0.50 !"]
    assert all(len(row) == len(steps[0]) for row in steps)
    shown = ["1", "2 s", "8 s", "4.00", "2 MB", "1 MB", "3 MB", "5", "2.5 s", "3 s", "9 s"]
    shown += ["2026-11-23", "0.5"]
    assert costs[1][3:] == shown
    assert len(costs[0]) == len(costs[1])


def test_a_script_has_its_row_s_steps_or_as_many_as_fit_into_its_time():
    assert Plan(1, 1.0, scripts=False, script_seconds=60).script_steps(TASK, 0.5) == 0
    assert Plan(1, 1.0, scripts=True).script_steps(TASK, 0.5) == 5
    assert Plan(1, 1.0, scripts=True, script_seconds=60).script_steps(TASK, 0.5) == 120
    row = measured(1)
    row.sides[OURS].script_steps = 120
    (_, _), (_, costs) = sections([row])
    assert costs[1][10] == "120"


def test_a_row_without_a_result_stands_on_the_page():
    failed = Measured(TASK, 1, "2026-11-23", 0.5, failure="Ingot:\nat a line\nbad")
    text = page([failed, replace(measured(2), note="XLA is away")], ["here"])
    assert "## Time of a step, 2 threads" in text
    assert "1 thread\n" not in text
    assert "## Where XLA fails or its results differ\n\n- XLA is away\n" in text
    assert "## Rows without a result\n\n- model train 2, 1 thread: Ingot: bad\n" in text


def test_a_row_where_xla_fails_has_the_figures_of_the_others():
    found = {engine: side for engine, side in sides().items() if engine != XLA}
    (_, steps), (_, costs) = sections([replace(measured(1), sides=found)])
    assert steps[1] == ["model", "train", "2", "1 s", "2 s", "fails", "2.00", ""]
    shown = ["1", "2 s", "fails", "-", "2 MB", "1 MB", "fails", "5", "2.5 s", "3 s", "-"]
    assert costs[1][3:-2] == shown


def test_rows_are_kept_as_they_were(tmp_path):
    rows = [measured(1), Measured(TASK, 2, "2026-11-24", 1.0, failure="bad")]
    save(tmp_path / "rows.json", rows)
    assert load(tmp_path / "rows.json") == rows
    assert load(tmp_path / "none.json") == []
    again = replace(measured(1), when="2026-11-25")
    assert keep(tmp_path / "rows.json", again, [TASK]) == [again, rows[1]]
    assert load(tmp_path / "rows.json") == [again, rows[1]]
    other = replace(again, task=replace(TASK, tolerance=1e-2))
    assert keep(tmp_path / "rows.json", other, [other.task]) == [other]


def test_results_that_differ_are_no_result():
    calls = [[np.array([1.0, 2.0])], [np.array([3.0])]]
    check(TASK, OURS, calls, REFERENCE, calls)
    with pytest.raises(ArithmeticError, match="model train 2: result 1 of Ingot"):
        check(TASK, OURS, [calls[0], [np.array([3.1])]], REFERENCE, calls)
    with pytest.raises(ArithmeticError, match="result 0"):
        check(TASK, OURS, [[np.array([1.0, np.nan])], calls[1]], REFERENCE, calls)


@pytest.mark.slow
@pytest.mark.long
def test_a_row_is_checked_and_timed_in_worker_processes():
    pytest.importorskip("tensorflow")
    every = tasks([], ["infer", "train"], [0, 1])
    assert len({(task.name, task.kind, task.batch) for task in every}) == len(every)
    (task,) = tasks(["physics"], ["train"], [0])
    found, note = measure(task, 1, Plan(rounds=1, budget=0.001, scripts=False))
    assert not note
    assert {len(side.calls.seconds) for side in found.values()} == {1}
    assert all(side.memory > 0 for side in found.values())
    assert found[OURS].programs == 1
    assert found[OURS].script is None


@pytest.mark.slow
def test_a_growing_cache_is_compiled_once():
    pytest.importorskip("tensorflow")
    (task,) = tasks(["growing"], ["infer"], [0])
    with crew(start, 1, (OURS,)) as workers:
        workers[OURS].ask("load", task.name, task.kind, task.batch)
        workers[OURS].ask("compile_once")
        assert workers[OURS].ask("executables") == 1

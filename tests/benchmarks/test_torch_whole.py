# SPDX-License-Identifier: Apache-2.0
"""`make bench-torch`: what its tables say, one row in worker processes, and public programs.

Tables are made of figures that are given; no test looks at a time.
"""

import numpy as np
import pytest
from benchmarks.common.programs import Timing
from benchmarks.common.whole import Measured, Side, Task, crew, take_turns
from benchmarks.with_torch.report import EAGER, ENGINES, INDUCTOR, OURS, page, sections
from tools.public_torch_programs import TOLERANCE, Program, farthest, run_apart

TASK = Task("model", "train", 2, 1e-3)


def measured(threads: int) -> Measured:
    sides = {
        EAGER: Side(Timing([2.0, 20.0, 2.0]), 0.0, 1 << 20),
        INDUCTOR: Side(Timing([0.5, 5.0, 0.5]), 8.0, 3 << 20),
        OURS: Side(Timing([1.0, 10.0, 1.0]), 1.0, 2 << 20, programs=3, host=["aten.sort"]),
    }
    assert tuple(sides) == ENGINES
    return Measured(TASK, threads, "2026-11-25", 0.5, sides)


def test_tables_say_who_is_ahead_and_what_it_costs():
    (_, steps), (_, costs) = sections([measured(1)])
    assert steps[1] == ["model", "train", "2", "1 s", "2 s", "500 ms", "2.00", "0.50 !"]
    shown = ["2 s", "8.5 s", "2 s", "4.25", "2 MB", "3 MB", "1 MB", "3", "aten.sort"]
    assert costs[1][3:] == [*shown, "2026-11-25", "0.5"]
    assert {len(row) for row in costs} == {len(costs[0])}
    assert costs[2][6] == "4.25"


def test_a_row_without_a_result_stands_on_the_page():
    failed = Measured(TASK, 1, "2026-11-25", 0.5, failure="Ingot:\nat a line\nbad")
    text = page([failed, measured(2)], ["here"])
    assert "## Time per call, 2 threads" in text
    assert "## Time per call, 1 thread\n" not in text
    assert "## Rows without a result\n\n- model train 2, 1 thread: Ingot: bad\n" in text


def test_a_row_where_inductor_fails_has_the_figures_of_the_others():
    row = measured(1)
    del row.sides[INDUCTOR]
    (_, steps), (_, costs) = sections([row, measured(1)])
    assert steps[1] == ["model", "train", "2", "1 s", "2 s", "fails", "2.00", ""]
    assert steps[3][-2:] == ["2.00", "0.50 !"]
    assert costs[1][3:-2] == ["2 s", "fails", "2 s", "", "2 MB", "fails", "1 MB", "3", "aten.sort"]
    assert costs[3][6] == "4.25"
    assert sections([row])[0][1][2][-2:] == ["2.00", ""]


class _Engine:
    """Stands in for a worker process; one that fails does so when it compiles."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def ask(self, action: str, *given: object) -> object:
        if action == "compile_once":
            if self.fails:
                raise RuntimeError("a worker:\nat a line\nno such op")
            return [[np.ones(1)], [np.ones(1)]]
        return 1.0


def test_the_compiler_of_the_framework_may_fail_and_the_others_are_timed():
    workers = {EAGER: _Engine(), INDUCTOR: _Engine(fails=True), OURS: _Engine()}
    sides, note = take_turns(TASK, workers, 2, 0.0)
    assert list(sides) == [EAGER, OURS]
    assert sides[OURS].calls.seconds == [1.0, 1.0]
    assert note == "model train 2: a worker: no such op"
    for engine in (EAGER, OURS):
        with pytest.raises(RuntimeError, match="no such op"):
            take_turns(TASK, {**workers, engine: _Engine(fails=True)}, 1, 0.0)


@pytest.mark.slow
@pytest.mark.long
def test_a_row_is_checked_and_timed_in_worker_processes():
    pytest.importorskip("torch")
    from benchmarks.with_torch.whole import start, tasks

    every = tasks([], ["infer", "train"])
    assert len({(task.name, task.kind) for task in every}) == len(every)
    (task,) = tasks(["MLP"], ["train"])
    # Without inductor, which needs g++.
    with crew(start, 1, (EAGER, OURS)) as workers:
        sides, note = take_turns(task, workers, 1, 0.001)
        programs, _ = workers[OURS].ask("compiled")
    assert not note
    assert all(len(side.calls.seconds) == 1 for side in sides.values())
    # Of the forward pass, the backward pass and the optimizer.
    assert programs >= 3


SCRIPT = """\
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    torch.nn.functional.dropout(model(torch.randn(8, 4)), 0.5).square().mean().backward()
    optimizer.step()
"""


def test_losses_are_compared():
    assert farthest([1.0, 2.1, 3.0], [1.0, 2.0, 3.0]) == pytest.approx(0.05)
    assert not farthest([1.0, float("nan")], [1.0, 2.0]) <= TOLERANCE
    with pytest.raises(ValueError, match="longer"):
        farthest([1.0], [1.0, 2.0])


def test_a_line_to_edit_has_to_be_there_once(tmp_path):
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "main.py").write_text("a\na\n", encoding="utf-8")
    for old, count in (("a", 2), ("b", 0)):
        program = Program("it", "it", "main.py", edits=((old, ""),))
        with pytest.raises(ValueError, match=f"has {count} times: {old}"):
            run_apart(program, tmp_path, "ingot", 1)


@pytest.mark.slow
def test_a_public_program_is_run_with_and_without_ingot(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "main.py").write_text(SCRIPT, encoding="utf-8")
    edits = (("optimizer = ", "model.compile(backend=BACKEND); optimizer = "),)
    program = Program("it", "it", "main.py", edits=edits)
    eager, ours = (run_apart(program, tmp_path, backend, 3) for backend in ("eager", "ingot"))
    assert len(eager.losses) == 3
    assert farthest(ours.losses, eager.losses) <= TOLERANCE

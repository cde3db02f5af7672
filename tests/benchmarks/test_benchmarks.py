# SPDX-License-Identifier: Apache-2.0
"""The benchmark itself: every program is spelled in every framework, reports say what was measured.

One tiny row is really run, in worker processes, so that `make bench` cannot rot unseen.
"""

import pickle
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from benchmarks.common.compare import Plan, Row, largest_error, measure, workers
from benchmarks.common.plot import svg
from benchmarks.common.programs import PROGRAMS, Program, Timing
from benchmarks.common.report import as_markdown, as_text, duration, factor, run_table, sections
from benchmarks.ops import every_op, every_op_programs
from benchmarks.ops.op_programs import OPS


def row(ours: list[float], theirs: list[float]) -> Row:
    made = Row(Program("tiny call: 4", ((4,), (4,)), bytes=48))
    made.calls = {("Ingot", 1): Timing(ours), ("XLA", 1): Timing(theirs)}
    return made


def test_programs_have_distinct_names_and_the_same_inputs_every_time():
    every = PROGRAMS + OPS
    assert len({program.name for program in every}) == len(every)
    small = min(PROGRAMS, key=lambda program: sum(map(np.prod, program.shapes)))
    for first, second in zip(small.inputs(), small.inputs(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_every_program_is_spelled_in_jax():
    functions = pytest.importorskip("benchmarks.ops.jax_programs").FUNCTIONS
    assert {program.function for program in PROGRAMS} == set(functions)


def test_every_op_is_spelled_in_jax():
    functions = pytest.importorskip("benchmarks.ops.jax_ops").FUNCTIONS
    assert {program.function for program in OPS} == set(functions)
    assert pickle.loads(pickle.dumps(OPS)) == OPS, "programs are sent to workers"


def test_every_op_with_every_type_is_spelled_and_stands_on_its_page():
    functions = pytest.importorskip("benchmarks.ops.every_op_functions").FUNCTIONS
    every = every_op_programs.programs()
    assert {program.function for program in every} == set(functions)
    rows = []
    for program in every[:9]:
        made = Row(program, {("Ingot", 1): Timing([1.0]), ("XLA", 1): Timing([2.0])})
        made.calls |= {("Ingot", 2): Timing([1.0]), ("XLA", 2): Timing([3.0])}
        made.compilations = {("Ingot", 1): Timing([2.0]), ("XLA", 1): Timing([1.0])}
        rows.append(made)
    text = every_op.page(rows, [1, 2], ["here"])
    name, dtype = every[0].name.split(": ")
    assert f"| {name} |" in text
    assert dtype in text
    assert "## Time per call, 1 thread" in text
    assert text.count(" 2.00 |") == 9
    assert "## Time per call, 2 threads" in text
    assert text.count(" 3.00 |") == 9
    assert text.count(" 0.50 ! |") == 9


@pytest.mark.slow
def test_every_program_is_spelled_in_tensorflow():
    functions = pytest.importorskip("benchmarks.ops.tensorflow_programs").FUNCTIONS
    assert {program.function for program in PROGRAMS} == set(functions)


def test_ratio_is_the_median_of_the_rounds_ratios():
    # The second round was disturbed for both.
    assert Timing([1.0, 10.0, 1.0]).ratio(Timing([2.0, 20.0, 4.0])) == 2.0


def test_a_faster_peer_is_marked():
    assert factor(1.5) == "1.50"
    assert factor(0.5) == "0.50 !"
    assert factor(None) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 us"), (9e-8, "90 ns")]
)
def test_durations_have_fitting_units(seconds: float, text: str):
    assert duration(seconds) == text


def test_errors_are_relative_to_the_largest_element():
    reference = [np.array([0.0, 100.0], np.float32)]
    assert largest_error([np.array([1.0, 100.0], np.float32)], reference) == pytest.approx(0.01)
    assert largest_error([np.zeros(3, np.float32)], reference) == float("inf")
    assert largest_error([], reference) == float("inf")


def test_a_nan_on_one_side_is_an_error_and_on_both_none():
    number, nan = [np.array([1.0, 2.0])], [np.array([np.nan, 2.0])]
    assert np.isnan(largest_error(nan, number))
    assert np.isnan(largest_error(number, nan))
    assert np.isnan(largest_error([*nan, *number], [*number, *number]))
    assert largest_error(nan, nan) == 0
    infinite = [np.array([np.inf, 2.0])]
    assert largest_error(infinite, infinite) == 0
    assert largest_error(number, infinite) == float("inf")


def test_tables_leave_out_what_was_not_measured():
    table = run_table([row([1e-6], [3e-6])], 1)
    assert table[1] == ["tiny call: 4", "1 us", "3 us", "3.00", "0.0 GB/s"]
    assert len(as_text(table).splitlines()) == 3
    assert as_markdown(table).splitlines()[1] == "|---" + "|---:" * 4 + "|"
    assert [title for title, _ in sections([row([1.0], [1.0])], [1])] == ["Time per call, 1 thread"]


def test_plot_has_a_bar_for_every_measured_ratio():
    root = ElementTree.fromstring(svg([row([1e-6], [3e-6]), row([2e-6], [1e-6])], [1]))
    texts = [item.text for item in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "3.00" in texts
    assert "0.50" in texts


@pytest.mark.slow
@pytest.mark.long
def test_an_op_is_timed_with_every_number_of_threads_and_compiled_with_the_first():
    program = every_op_programs.programs()[0]
    with workers(("Ingot", "XLA"), (1,)) as one, workers(("Ingot", "XLA"), (2,)) as two:
        found = every_op.measure_on_each(program, [one, two])
    assert found.ratio("Ingot", "XLA", 1) is not None
    assert found.ratio("Ingot", "XLA", 2) is not None
    assert {threads for _, threads in found.compilations} == {1}


@pytest.mark.slow
def test_a_row_is_checked_and_timed_in_worker_processes():
    program = next(program for program in PROGRAMS if program.function == "tiny call")
    with workers(("Ingot", "XLA"), (1,)) as crew:
        found = measure(program, crew, Plan(rounds=2, budget=0.001, compilations=1))
    assert found.error <= program.tolerance
    assert found.ratio("Ingot", "XLA", 1) is not None
    assert found.compile_ratio("Ingot", "XLA", 1) is not None

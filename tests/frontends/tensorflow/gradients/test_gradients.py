# SPDX-License-Identifier: Apache-2.0
"""Each program differentiated in some way: Ingot's numbers against plain TensorFlow's.

The whole table (`sweep`) takes half an hour; here every sixth program is in one cell, those that
are not slow in the ordinary tests.
"""

import pytest
from tests.frontends.tensorflow.gradients.nests import NESTS
from tests.frontends.tensorflow.gradients.sweep import CANNOT, compare
from tests.frontends.tensorflow.gradients.table import PROGRAMS
from tests.frontends.tensorflow.gradients.ways import WAYS
from tests.frontends.tensorflow.programs.beside import COMPILED

FAST = (
    ("polynomial", "outside 2"),
    ("largest", "outside 1"),
    ("concat", "between 2"),
    ("branch", "graph 1"),
    ("total", "gradients 2"),
    ("bare_loop", "outside 2"),
    ("bare_loop", "gradients 2"),
    ("autograph_for", "outside 2"),
)


def _slow_cells() -> list[tuple[str, str]]:
    """Return a cell for each sixth program: the ways in turn, without what cannot be."""
    cells: list[tuple[str, str]] = []
    for number, name in enumerate(PROGRAMS):
        ways = [way for way in WAYS if (name, way) not in CANNOT]
        cells.append((name, ways[number % len(ways)]))
    return cells[::6]


def _check(name: str, way: str) -> None:
    COMPILED.clear()
    compare(PROGRAMS[name], way)
    assert COMPILED, "nothing was compiled"


@pytest.mark.parametrize(("name", "way"), FAST)
def test_gradients(name, way):
    _check(name, way)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("nested_loops", "outside 2"),
        ("nested_loops", "open 2"),
        ("nested_loops", "gradients 2"),
        ("bare_loop", "open 2"),
    ],
)
def test_lists_of_lists_and_empty_lists_cross(name, way):
    _check(name, way)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), _slow_cells())
def test_programs_in_turn(name, way):
    _check(name, way)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("loop in rnn in call", "outside 1"),
        ("array in loop in cond", "outside 1"),
        ("scan in loop in loop", "outside 1"),
        ("cond in rnn in loop", "outside 1"),
    ],
)
def test_nests(name, way):
    _check_nest(name, way)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("cond in loop in loop", "outside 2"),
        ("loop in cond in loop", "inside 2"),
        ("call in loop in loop", "between 2"),
        ("loop in loop in cond", "graph 2"),
    ],
)
def test_nests_in_turn(name, way):
    _check_nest(name, way)


def _check_nest(name: str, way: str) -> None:
    COMPILED.clear()
    compare(NESTS[name], way)
    assert COMPILED, "nothing was compiled"

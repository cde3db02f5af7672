# SPDX-License-Identifier: Apache-2.0
"""`tests/kernel/schedules/*.schedule`: a kernel, and beside it how it runs on two kinds of CPU.

A file holds a loop kernel, with a comment that says what it is about, and the schedules that are
decided for it (`tests/expected_text.py`). `pytest tests/kernel --bless` writes those that are
decided now; look at the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.expected_text import check_expected, expectation

from ingot.hlo.dtype import F32
from ingot.kernel.analysis.gathers import GathersAhead
from ingot.kernel.expr import load
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass
from ingot.kernel.parse import parse_kernel
from ingot.kernel.schedule.decide import LOOP_STRATEGIES, schedule_loops
from ingot.kernel.schedule.loop_schedule import InLanes, LoopSchedule
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.kernel.schedule.row_folds import JoinedRows, TransposedRows
from ingot.kernel.schedule.serial import StagedUpdates
from ingot.kernel.schedule.short_rows import GatheredRows, RowNest
from ingot.kernel.schedule.splits import SplitReduction
from ingot.kernel.schedule.text import fields_text, schedule_text
from ingot.kernel.schedule.tiles import SquareTiles
from ingot.kernel.schedule.verifier import verify_schedule
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError
from ingot.support.records import replace

_FILES = sorted((Path(__file__).parent / "schedules").glob("*.schedule"))
_LEVELS = ("avx512", "avx2")


def _kernel(path: Path) -> LoopKernel:
    kernel = parse_kernel(expectation(path)[0], str(path))
    assert isinstance(kernel, LoopKernel)
    return kernel


def _schedule(kernel: LoopKernel, level: str) -> LoopSchedule:
    return schedule_loops(kernel, Vectors.of(TargetSpec.at_level(level)))


def _named(name: str) -> tuple[LoopKernel, LoopSchedule]:
    (path,) = (path for path in _FILES if path.stem == name)
    kernel = _kernel(path)
    return kernel, _schedule(kernel, "avx512")


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_schedule_is_the_expected_one(path: Path, request: pytest.FixtureRequest) -> None:
    kernel = _kernel(path)
    schedules = {level: _schedule(kernel, level) for level in _LEVELS}
    for schedule in schedules.values():
        verify_schedule(kernel, schedule)
    texts = [f"{level}: {schedule_text(kernel, each)}" for level, each in schedules.items()]
    check_expected(path, "".join(texts), request)


def test_every_strategy_has_a_kernel() -> None:
    found = {type(_schedule(_kernel(path), "avx512").strategy) for path in _FILES}
    assert found == set(LOOP_STRATEGIES)


@pytest.mark.parametrize(
    ("name", "changes", "broken"),
    [
        ("lanes", {"lanes": ()}, "lanes: 0 numbers for 1 passes"),
        ("lanes", {"lanes": (0,)}, "lanes: a pass has none"),
        ("lanes", {"vector_axis": Axis("@7", 4)}, "vector-axis: @7 is no axis of the grid"),
        ("transposed_rows", {"lanes": (16, 8)}, "vector-axis: passes have different lanes"),
        ("lanes", {"units": 2}, "units: 2 are not the blocks of the grid, 1"),
        ("joined_rows", {"chunks": 2}, "chunks: 2 of 63 units are not 63"),
        ("staged_updates", {"grain": 3}, "chunks: units that run in order are one chunk"),
        ("lanes", {"large_buffers": frozenset((2,))}, "large-buffers: there is no buffer 2"),
        ("pieces", {"vector_axis": Axis("@0", 1000)}, "the last cut is not along the vector axis"),
        ("square_tiles", {"block": 100, "units": 15, "grain": 15, "chunks": 1}, "not whole tiles"),
    ],
)
def test_illegal_schedules_are_refused(name: str, changes: dict[str, object], broken: str) -> None:
    kernel, schedule = _named(name)
    with pytest.raises(InternalError, match="INGOT0932") as caught:
        verify_schedule(kernel, replace(schedule, **changes))
    assert broken in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "broken"),
    [
        ("lanes", {"ahead": GathersAhead(8, ())}, "ahead: no index has 8 bits"),
        ("square_tiles", {"loads": (load(2, 0, F32),)}, "loads: the kernel has no load"),
        ("transposed_rows", {"loads": (load(2, 0, F32),)}, "loads: the kernel has no load"),
        ("gathered_rows", {"ahead": GathersAhead(8, ())}, "ahead: no index has 8 bits"),
        ("pieces", {"bands": ()}, "not each combination of ranges is a band"),
        ("pieces", {"cuts": ()}, "the last cut is not along the vector axis"),
        ("square_tiles", {"side": 12}, "a side is not as long as a vector"),
        ("square_tiles", {"rows": 20}, "not whole tiles"),
        ("square_tiles", {"axis": Axis("@5", 16)}, "both sides are along one axis"),
        ("split_reduction", {"length": 100}, "32 parts of 100 are not 4194304"),
        ("split_reduction", {"rows": 7}, "a part is not whole rows"),
        ("split_reduction", {"rows": 4}, "rows and runs"),
        ("split_reduction", {"runs": 0}, "no runs"),
        ("staged_updates", {"index_bits": 16}, "no integers for their indices"),
        ("staged_updates", {"count": 0}, "no updates"),
        ("staged_updates", {"count": 12}, "updates are not whole rounds of a loop"),
        ("gathered_rows", {"ahead": GathersAhead(32, ((),))}, "nothing is gathered"),
        ("joined_rows", {"axis": Axis("@9", 1000)}, "@9 is no axis of the grid"),
        ("transposed_rows", {"width": 4}, "a row is longer than what is read of it"),
        ("transposed_rows", {"lanes": 8}, "lanes are not the rows of a block"),
        ("peeled_rows", {"peeled": (True, False)}, "2 passes of 1 are peeled or not"),
        ("peeled_pass", {"peeled": (True, True)}, "a pass is peeled that stores nothing"),
        ("row_nest", {"parts": ((0, 8), (9, 1))}, "parts leave elements of a row out"),
        ("row_nest", {"parts": ((0, 8),)}, "parts are not as long as a row"),
        ("row_nest", {"written": 2}, "more axes are written out than there are"),
    ],
)
def test_illegal_numbers_of_strategies_are_refused(
    name: str, changes: dict[str, object], broken: str
) -> None:
    kernel, schedule = _named(name)
    changed = replace(schedule, strategy=replace(schedule.strategy, **changes))
    with pytest.raises(InternalError, match="INGOT0932") as caught:
        verify_schedule(kernel, changed)
    assert broken in str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "broken"),
    [
        (SplitReduction(1, 1), "it is not one reduction"),
        (StagedUpdates(1, None, False, 32), "updates are not made in order"),
        (JoinedRows(Axis("@0", 4)), "lanes run along an axis of the grid"),
        (GatheredRows(), "there are no rows along the last axis"),
        (RowNest((), (), 0), "there are no rows around"),
        (Pieces((), ()), "the last cut is not along the vector axis"),
        (SquareTiles(Axis("@0", 4), 8, 64, False, ()), "both sides are along one axis"),
        (TransposedRows(4, 4, ()), "lanes are not the rows of a block"),
        (InLanes(), ""),
    ],
)
def test_a_strategy_is_refused_where_its_loops_are_not(strategy: object, broken: str) -> None:
    """The kernel has one axis and one pass without loops: lanes are all that it can have."""
    kernel = LoopKernel((Axis("@0", 4),), (Pass(()),), (Buffer(F32, 4, True),))
    schedule = LoopSchedule(kernel.grid[0], (8,), 8, 1, 1, 1, strategy)  # type: ignore[arg-type]
    if not broken:
        return verify_schedule(kernel, schedule)
    with pytest.raises(InternalError, match="INGOT0932") as caught:
        verify_schedule(kernel, schedule)
    assert broken in str(caught.value)


def test_fields_that_say_nothing_are_left_out() -> None:
    text = fields_text("staged updates", StagedUpdates(32, None, True, 64))
    assert text == "staged updates count=32 recomputes index_bits=64"

# SPDX-License-Identifier: Apache-2.0
"""Rows of pipelines whose passes are imported late say what the passes say of themselves."""

from __future__ import annotations

import sys

import pytest

from ingot.cpu.pipeline import PIPELINE
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext, passes_of
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.expand.pipeline import STAGED_SHAPES
from ingot.passes.late import LatePass, late

_ROWS = {
    step.name: step
    for step in (*passes_of(PIPELINE), *passes_of(STAGED_SHAPES))
    if isinstance(step, LatePass)
}


def test_there_are_rows() -> None:
    assert len(_ROWS) > 50


@pytest.mark.parametrize("row", _ROWS.values(), ids=_ROWS)
def test_a_row_says_what_its_pass_says(row: LatePass) -> None:
    assert _facts(row) == _facts(row.loaded())


def _facts(step: Pass) -> tuple[object, ...]:
    concerns = sorted(step.concerns or ())
    properties = (sorted(step.requires), sorted(step.ensures), sorted(step.breaks))
    return (step.name, concerns, *properties, step.lowers)


@pytest.mark.parametrize(
    ("name", "where"),
    [("topk-expander", "sorts"), ("while-loop-dot-code-motion", "while_loops.dots")],
)
def test_a_pass_is_imported_when_a_module_needs_it(
    name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = f"ingot.passes.simplify.{where}"
    monkeypatch.delitem(sys.modules, home, raising=False)
    row = late(name, f"simplify.{where}", "negate")
    b = Builder("main")
    unconcerned = Module.of("m", b.build(b.abs(b.parameter(0, "f32[2]"))))
    assert not run_passes(row, unconcerned, PassContext())
    assert home not in sys.modules
    b = Builder("main")
    concerned = Module.of("m", b.build(b.negate(b.parameter(0, "f32[2]"))))
    row.run(concerned, PassContext())
    assert home in sys.modules

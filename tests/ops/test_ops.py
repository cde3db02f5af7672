# SPDX-License-Identifier: Apache-2.0
"""One file per op, `<op>.hlo`: its meaning as programs, held on the evaluator, backends and XLA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.op_cases import Case, difference, flat, read_cases
from tests.support.real_xla import run_hlo_text

import ingot
from ingot.client.compilation import default_context
from ingot.evaluator import evaluate, evaluated_opcodes
from ingot.formats.hlo_text import parse
from ingot.hlo.opdef import table
from ingot.support.diagnostics import UnsupportedError

pytestmark = pytest.mark.fast_share(16)

FILES = sorted(Path(__file__).parent.glob("*.hlo"))
CASES = [case for path in FILES for case in read_cases(path)]


def _check(case: Case, outputs: list[Any], wanted: list[Any], ulps: int) -> None:
    assert len(outputs) == len(wanted)
    for number, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        found = difference(got, want, ulps)
        assert not found, f"{case.name}: output {number} {found}"


def test_every_op_has_a_file() -> None:
    assert {path.stem for path in FILES} == set(table())


def test_every_op_has_a_rule() -> None:
    assert evaluated_opcodes() == set(table())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evaluator(case: Case) -> None:
    assert case.runs, f"{case.name} has no EXPECT"
    module = parse(case.text)
    for run in case.runs:
        _check(case, flat(evaluate(module, run.inputs)), run.outputs, case.ulps)


# How many rewrite rules may fire: any number, and none.
_LEVELS: dict[str, int | None] = {"full": None, "bare": 0}


@pytest.mark.parametrize("level", ["full", pytest.param("bare", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cpu(case: Case, level: str) -> None:
    context = default_context()
    context.rewrite_fuel = _LEVELS[level]
    try:
        executable = ingot.compile(parse(case.text), context=context)
    except UnsupportedError as error:
        pytest.skip(error.diagnostic.message)
    for run in case.runs:
        _check(case, flat(executable(*run.inputs)), run.outputs, case.ulps)


_ON_XLA = [case for case in CASES if not case.differs_from_xla and "?" not in case.text]


@pytest.mark.slow
@pytest.mark.parametrize("case", _ON_XLA, ids=lambda case: case.name)
def test_real_xla(case: Case) -> None:
    for run in case.runs:
        # Twice the ulps: XLA's own functions are not rounded correctly either.
        _check(case, run_hlo_text(case.text, run.inputs), run.outputs, 2 * case.ulps)

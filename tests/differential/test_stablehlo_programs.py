# SPDX-License-Identifier: Apache-2.0
"""StableHLO text means what real XLA says it means."""

from __future__ import annotations

import pytest
from tests.differential.comparison import difference
from tests.differential.stablehlo_cases import PROGRAMS, SUM, Program
from tests.support.real_xla import run_stablehlo

import ingot
from ingot.evaluator import evaluate
from ingot.formats.stablehlo import parse_stablehlo

pytest.importorskip("jax")


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.by_xla], ids=lambda p: p.name)
def test_the_text_means_what_xla_says(program: Program) -> None:
    inputs = list(program.inputs())
    (wanted,) = run_stablehlo(program.text, inputs)
    module = parse_stablehlo(program.text)
    for got in (evaluate(module, inputs), ingot.compile(module)(*inputs)):
        assert not difference(got, wanted, SUM.xla_ulps, of_largest=True)

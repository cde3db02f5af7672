# SPDX-License-Identifier: Apache-2.0
"""`tests/ops/*.hlo` at the CPU's lower levels.

`tests/ops/test_ops.py` runs the cases at this machine's own level. Here they run without AVX-512
and without AVX, where LLVM lowers masks, gathers, rounding and conversions differently.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.op_cases import Case, difference, flat, read_cases

import ingot
from ingot.formats.hlo_text import parse
from ingot.llvm.target import TargetSpec, host_levels
from ingot.support.diagnostics import UnsupportedError

pytestmark = pytest.mark.fast_share(12)

OPS = Path(__file__).resolve().parents[1] / "ops"
CASES = [case for path in sorted(OPS.glob("*.hlo")) for case in read_cases(path)]

RUNS = [
    pytest.param(case, level, id=f"{case.name}-{level}")
    for level in host_levels()[1:]
    for case in CASES
]


@pytest.mark.parametrize(("case", "level"), RUNS)
def test_as_the_file_says(case: Case, level: str) -> None:
    executable = ingot.compile(parse(case.text), target=TargetSpec.host(level))
    for run in case.runs:
        outputs = flat(executable(*run.inputs))
        assert len(outputs) == len(run.outputs)
        for number, (got, want) in enumerate(zip(outputs, run.outputs, strict=True)):
            found = difference(got, want, case.ulps)
            assert not found, f"{case.name}: output {number} {found}"


def test_a_custom_call_nobody_knows_is_refused_by_name() -> None:
    text = """
    HloModule calls
    ENTRY main {
      x = f32[3] parameter(0)
      ROOT y = f32[3] custom-call(x), custom_call_target="nobody"
    }"""
    with pytest.raises(UnsupportedError, match=r"no custom-call target .nobody. is registered"):
        ingot.compile(parse(text))

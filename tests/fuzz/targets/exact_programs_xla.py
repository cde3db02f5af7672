"""The programs of `exact_programs` on real XLA: what the evaluator says is what XLA says."""

from __future__ import annotations

from tests.differential.engine import on_xla
from tests.fuzz.program_case import read_case
from tests.fuzz.target import Target
from tests.fuzz.targets.exact_programs import generate


def check(data: bytes) -> str:
    """Compare real XLA with the evaluator."""
    case = read_case(data)
    return case.difference("xla", on_xla(case.module, list(case.inputs)), case.wanted())


TARGET = Target("exact_programs_xla", ".hlo", generate, check, share=0.5)

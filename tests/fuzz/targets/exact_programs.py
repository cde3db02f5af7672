# SPDX-License-Identifier: Apache-2.0
"""Random programs whose every number is exact (`tests.fuzz.generator`): native code must agree.

Inputs, outputs and the arena lie between guard pages, so that what reads or writes past an array
ends the process.
"""

from __future__ import annotations

import random

from tests.fuzz.generator import exact_program
from tests.fuzz.program_case import ProgramCase, read_case
from tests.fuzz.target import Target
from tests.guard_pages.memory import run_guarded


def generate(choose: random.Random) -> bytes:
    """Return a program with its inputs."""
    module, inputs = exact_program(choose.getrandbits(48))
    return ProgramCase(module, inputs).to_bytes()


def check(data: bytes) -> str:
    """Compare native code with the evaluator."""
    case = read_case(data)
    want = case.wanted()
    executable = case.compiled()
    for at_end in (True, False):
        got = run_guarded(executable, case.inputs, at_end=at_end)
        found = case.difference("cpu", got, want)
        if found:
            return found
    return ""


TARGET = Target("exact_programs", ".hlo", generate, check, share=3.0)

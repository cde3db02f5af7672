# SPDX-License-Identifier: Apache-2.0
"""Cases of the differential run, a few at a time, in random surroundings.

The table (`tests.differential.table`) has every op with every element type, attribute and special
value; here they stand beside each other and between movements, loops and branches, and are compared
with the evaluator as near as the table says.
"""

from __future__ import annotations

import random
from functools import cache

from tests.differential.case import ALONE, Case, Nearness
from tests.differential.table import all_cases
from tests.fuzz.program_case import EXACT, flat, read_case
from tests.fuzz.surroundings import Part, surrounded
from tests.fuzz.target import Target

from ingot.hlo.verifier import verify
from ingot.support.diagnostics import UnsupportedError


def generate(choose: random.Random) -> bytes:
    """Return a program of one to four cases."""
    chosen = choose.sample(_families(), choose.randint(1, 4))
    parts = [_part(choose.choice(cases)) for cases in chosen]
    return surrounded(parts, choose).to_bytes()


@cache
def _families() -> list[list[Case]]:
    """Return the cases by opcode, so that ops with few cases come as often as others."""
    found: dict[str, list[Case]] = {}
    for case in all_cases():
        if case.grid == ALONE:
            found.setdefault(case.opcode, []).append(case)
    return list(found.values())


def _part(case: Case) -> Part:
    return Part(case.inputs, case.build, _compare(case.nearness))


def _compare(near: Nearness) -> str:
    if not near.ulps:
        return EXACT
    return f"ulps {near.ulps}{' of largest' if near.of_largest else ''}"


def check(data: bytes) -> str:
    """Compare native code with the evaluator."""
    case = read_case(data)
    verify(case.module)
    try:
        executable = case.compiled()
        if not case.runs_here:
            return ""
        want = case.wanted()
        got = flat(executable(*case.inputs))
    except UnsupportedError:
        return ""
    return case.difference("cpu", got, want)


TARGET = Target("mixed_cases", ".hlo", generate, check, share=3.0)

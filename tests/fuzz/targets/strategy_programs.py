# SPDX-License-Identifier: Apache-2.0
"""Programs of sizes around the thresholds of single strategies (`tests.fuzz.strategy_parts`).

A few run after the whole library was loaded, as a server loads it when it begins.
"""

from __future__ import annotations

import random

from tests.fuzz.rare_parts import RARE_PARTS
from tests.fuzz.strategy_parts import STRATEGY_PARTS
from tests.fuzz.surroundings import surrounded
from tests.fuzz.target import Target
from tests.fuzz.targets import mixed_cases

from ingot.client import load_library

_PARTS = (*STRATEGY_PARTS, *RARE_PARTS)
LOADED = b"// LIBRARY: loaded\n"


def generate(choose: random.Random) -> bytes:
    """Return a program of one or two such parts."""
    parts = [choose.choice(_PARTS)(choose) for _ in range(choose.choice((1, 1, 2)))]
    data = surrounded(parts, choose).to_bytes()
    return LOADED + data if choose.random() < 0.1 else data


def check(data: bytes) -> str:
    """Compare native code with the evaluator."""
    if data.startswith(LOADED):
        load_library()
    return mixed_cases.check(data)


TARGET = Target("strategy_programs", ".hlo", generate, check, share=3.0, seconds=90.0)

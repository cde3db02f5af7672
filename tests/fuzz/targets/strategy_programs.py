"""Programs of sizes around the thresholds of single strategies (`tests.fuzz.strategy_parts`)."""

from __future__ import annotations

import random

from tests.fuzz.strategy_parts import STRATEGY_PARTS
from tests.fuzz.surroundings import surrounded
from tests.fuzz.target import Target
from tests.fuzz.targets.mixed_cases import check


def generate(choose: random.Random) -> bytes:
    """Return a program of one or two such parts."""
    parts = [choose.choice(STRATEGY_PARTS)(choose) for _ in range(choose.choice((1, 1, 2)))]
    return surrounded(parts, choose).to_bytes()


TARGET = Target("strategy_programs", ".hlo", generate, check, share=3.0, seconds=90.0)

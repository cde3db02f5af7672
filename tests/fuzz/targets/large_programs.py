# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, sorts, transforms and the like, of sizes that each strategy waits for."""

from __future__ import annotations

import random

from tests.fuzz.large_parts import PARTS
from tests.fuzz.surroundings import surrounded
from tests.fuzz.target import Target
from tests.fuzz.targets.mixed_cases import check


def generate(choose: random.Random) -> bytes:
    """Return a program of one or two such parts."""
    parts = [choose.choice(PARTS)(choose) for _ in range(choose.choice((1, 1, 2)))]
    return surrounded(parts, choose).to_bytes()


TARGET = Target("large_programs", ".hlo", generate, check, share=3.0, seconds=90.0)

# SPDX-License-Identifier: Apache-2.0
"""The whole table of cases, in a fixed order."""

from __future__ import annotations

from functools import cache

from tests.differential import (
    contraction_cases,
    control_cases,
    device_cases,
    elementwise_cases,
    indexing_cases,
    library_cases,
    program_cases,
    shaping_cases,
    stablehlo_cases,
)
from tests.differential.case import Case, unique

FAMILIES = (
    elementwise_cases, shaping_cases, contraction_cases, indexing_cases, control_cases,
    library_cases, program_cases, stablehlo_cases, device_cases,
)  # fmt: skip


@cache
def all_cases() -> tuple[Case, ...]:
    """Return every case."""
    return tuple(unique(case for family in FAMILIES for case in family.cases()))


def sample(count: int) -> list[Case]:
    """Return `count` cases spread evenly over the table."""
    cases = all_cases()
    step = len(cases) / count
    return [cases[int(number * step)] for number in range(count)]

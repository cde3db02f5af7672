# SPDX-License-Identifier: Apache-2.0
"""A sample of the differential run; `make conformance` is the whole of it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.differential.comparison import difference
from tests.differential.disagreements import explain, is_refused
from tests.differential.engine import run_cases
from tests.differential.table import all_cases, sample


def test_there_are_at_least_5000_cases() -> None:
    assert len(all_cases()) >= 5000


@pytest.mark.slow
def test_sample_of_the_table() -> None:
    results = run_cases(sample(160), is_refused=is_refused)
    unknown = [item for result in results for item in explain(result)[0]]
    assert not unknown, "\n".join(map(str, unknown))


@pytest.mark.parametrize(
    ("got", "want", "ulps", "text"),
    [
        ([1.0, np.nan], [1.0, np.nan], 0, ""),
        ([0.0], [-0.0], 0, "at [0]: 0.0 and not -0.0"),
        ([1.0, 2.0], [1.0, 3.0], 1, "at [1]: 2.0 and not 3.0 (1 of 2)"),
        ([1.0000001], [1.0], 1, ""),
        ([np.inf], [1.0], 4, "at [0]: inf and not 1.0"),
    ],
)
def test_comparison(got: list[float], want: list[float], ulps: int, text: str) -> None:
    assert difference(np.float32(got), np.float32(want), ulps) == text


def test_comparison_by_the_largest_value() -> None:
    got, want = np.float32([1000, 1e-4]), np.float32([1000, 2e-4])
    assert difference(got, want, 4)
    assert not difference(got, want, 4, of_largest=True)

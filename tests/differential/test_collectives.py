# SPDX-License-Identifier: Apache-2.0
"""A sample of the collectives on four devices; `make conformance` runs all of them."""

from __future__ import annotations

import pytest
from tests.differential.device_cases import cases
from tests.differential.disagreements import explain, is_refused
from tests.differential.engine import run_cases


@pytest.mark.slow
def test_every_device_gets_what_real_xla_gives_it() -> None:
    sample = [case for number, case in enumerate(cases()) if number % 9 == 0]
    assert {case.grid for case in sample} == {(4, 1), (1, 4), (2, 2)}
    explained = [explain(result) for result in run_cases(sample, is_refused=is_refused)]
    assert not [item for unknown, _ in explained for item in unknown]
    # XLA's CPU folds no integers by their bits.
    refusals = {text for _, known in explained for _, text, _ in known}
    assert refusals
    assert all("Unsupported reduction computation" in text for text in refusals)

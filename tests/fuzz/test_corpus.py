# SPDX-License-Identifier: Apache-2.0
"""What fuzz runs have found, reduced: `corpus/<target>/` holds one file for each defect.

Every case runs in a worker process of its target and must go well.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.target import target, target_names
from tests.fuzz.watch import Watched

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", sorted(folder.name for folder in CORPUS.iterdir()))
def test_what_was_found_goes_well(name: str, tmp_path: Path) -> None:
    assert name in target_names(), f"{CORPUS / name} belongs to no target"
    watched = Watched(target(name), tmp_path)
    cases = sorted((CORPUS / name).glob(f"*{target(name).suffix}"))
    assert cases
    found = {case.name: watched.check(case.read_bytes()) for case in cases}
    watched.close()
    failed = {case: finding.detail for case, finding in found.items() if finding is not None}
    assert not failed

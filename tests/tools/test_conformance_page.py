# SPDX-License-Identifier: Apache-2.0
"""The page of JAX's conformance: settings that were measured now, and those that were before."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
conformance = pytest.importorskip("conformance_jax")


def outcomes(folder: Path, outcome: str) -> None:
    folder.mkdir(parents=True)
    rows = [
        {"collected": 1, "commit": "abc", "time": 0.0},
        {"test": "Test::test_a", "outcome": outcome, "text": "E   ValueError", "time": 86400.0},
    ]
    (folder / "lax_test.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_other_settings_stay(tmp_path: Path) -> None:
    outcomes(tmp_path / "first" / "1", "passed")
    outcomes(tmp_path / "first" / "10", "passed")
    before = conformance.page(tmp_path / "first")
    outcomes(tmp_path / "second" / "1-on-8", "failed")
    page = conformance.page(tmp_path / "second", before)
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [
        "## `JAX_NUM_GENERATED_CASES=1`",
        "## `JAX_NUM_GENERATED_CASES=10`",
        "## `JAX_NUM_GENERATED_CASES=1`, `JAX_NUM_CPU_DEVICES=8`",
    ]
    assert page.startswith(before.rstrip())
    assert "- `lax_test::Test::test_a`" in page
    assert "Measured on 1970-01-02 at abc." in page
    assert conformance.page(tmp_path / "second", page) == page

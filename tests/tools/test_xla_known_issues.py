# SPDX-License-Identifier: Apache-2.0
"""The page of XLA's known issues: Ingot's answers are TensorFlow's, and the page shows them."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import xla_known_issues  # noqa: E402


def test_ingot_gives_what_tensorflow_gives():
    want, have = xla_known_issues.run("tensorflow"), xla_known_issues.run("ingot")
    page = xla_known_issues.PAGE.read_text(encoding="utf-8")
    assert list(want) == list(have) == list(xla_known_issues.programs())
    for name, answer in have.items():
        error = want[name].partition(":")[0]
        is_error = error.endswith("Error")
        # An error has Ingot's words; its type is TensorFlow's.
        same = answer.startswith(error) if is_error else answer == want[name]
        assert same or name == "Batch sizes", (name, answer, want[name])
        assert answer.replace("|", "\\|") in page, name

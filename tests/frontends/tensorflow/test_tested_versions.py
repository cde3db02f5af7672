# SPDX-License-Identifier: Apache-2.0
"""The tested series of TensorFlow are the same to the front end, `ingot doctor` and the extra."""

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

from ingot.frontends.tensorflow.api import series
from ingot.support import versions

ROOT = Path(__file__).resolve().parents[3]


def test_the_tested_series_are_written_alike_everywhere():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (extra,) = settings["project"]["optional-dependencies"]["tensorflow"]
    tested = tuple(one.version for one in series.TESTED)
    assert versions.TESTED["tensorflow"] == tested
    major, minor = tested[-1].split(".")
    assert extra == f"tensorflow>={tested[0]},<{major}.{int(minor) + 1}"

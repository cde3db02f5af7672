# SPDX-License-Identifier: Apache-2.0
"""The stamp of Ingot's own sources: one for each state of them, none while they change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingot.support import sources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ingot" / "package" / "inner"
    folder.mkdir(parents=True)
    source = folder / "code.py"
    source.write_text("one = 1\n")
    os.utime(source, (1000, 1000))
    monkeypatch.setattr(sources, "__file__", str(tmp_path / "ingot" / "support" / "sources.py"))
    monkeypatch.setattr(sources, "BEGAN", 2000.0)
    sources.sources_stamp.cache_clear()
    yield source
    sources.sources_stamp.cache_clear()


def stamp() -> str:
    sources.sources_stamp.cache_clear()
    sources._package.cache_clear()
    return sources.sources_stamp(("package",))


def test_changes_with_a_source(package: Path) -> None:
    before = stamp()
    assert before
    assert stamp() == before
    os.utime(package, (1001, 1001))
    assert stamp() not in ("", before)


def test_no_stamp_while_sources_change(package: Path) -> None:
    os.utime(package, (1990, 1990))
    assert stamp() == ""

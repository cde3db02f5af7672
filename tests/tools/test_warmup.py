# SPDX-License-Identifier: Apache-2.0
"""`ingot warmup`: what is in the cache afterwards, and when it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ingot.__main__ import main
from ingot.llvm.cache import default_cache
from ingot.tools import warmup


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no framework but one that is not slow to load."""
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(warmup, "PROGRAMS", {"numpy": "import ingot"})
    return tmp_path


def test_the_library_is_on_the_disk(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # In a process of its own: this one may have loaded the library already.
    code = "import sys; from ingot.__main__ import main; from ingot.tools import warmup; "
    code += "warmup.PROGRAMS.clear(); sys.exit(main(['warmup']))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=500
    )
    assert warmup.LIBRARY in done.stdout
    assert warmup.cache_bytes(cache) > 100_000
    assert default_cache().directory == cache


def test_a_program_that_fails_is_told_of(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warmup, "warm_library", lambda: "")
    assert main(["warmup"]) == 0
    monkeypatch.setitem(warmup.PROGRAMS, "numpy", "raise ValueError('no framework')")
    assert main(["warmup"]) == 1
    assert "numpy: ValueError: no framework" in capsys.readouterr().out


def test_without_a_cache_it_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INGOT_CACHE", "0")
    assert main(["warmup"]) != 0
    assert "the cache on disk is off" in capsys.readouterr().err


def test_the_programs_are_those_of_the_front_ends() -> None:
    assert set(warmup.PROGRAMS) == {"tensorflow", "jax", "torch"}

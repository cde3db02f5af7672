# SPDX-License-Identifier: Apache-2.0
"""The documentation site is built without a warning, and needs no network to be read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads by itself; links to other sites are followed by the reader.
LOADED = re.compile(r"<(?:script|img|link)\b[^>]*\b(?:src|href)=\"(https?:[^\"]*)")

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")


def test_the_site_is_complete_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    pages = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.html")}
    assert "ingot.compile" in pages["reference.html"]
    assert "RESULTS.html" in pages["performance.html"]
    loaded = {url for text in pages.values() for url in LOADED.findall(text)}
    assert not loaded

# SPDX-License-Identifier: Apache-2.0
"""What is released: the distribution's name, its one version, its licence, its community files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ingot

ROOT = Path(__file__).resolve().parents[2]
NAME = "ingot-compiler"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
TEXTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "src/**/*.py", "tools/*.py", "examples/**/*.py")
    for path in ROOT.glob(pattern)
)
WRONG = re.compile(r"pip install (?:-\S+ )*['\"]?ingot(?!-compiler)\b|['\"]ingot\[")
"""The distribution `ingot` is another project's: installing it would run a stranger's code."""


def test_every_page_and_hint_names_the_distribution():
    found = {
        path.relative_to(ROOT).as_posix(): WRONG.findall(path.read_text(encoding="utf-8"))
        for path in TEXTS
    }
    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize("text", ["pip install ingot", "pip install -U 'ingot[jax]'", "'ingot[x]'"])
def test_the_wrong_distribution_is_found(text):
    assert WRONG.search(text)
    assert not WRONG.search(text.replace("ingot", NAME))


def test_the_version_is_written_in_one_place():
    assert PROJECT["name"] == NAME
    assert "version" not in PROJECT
    assert SETTINGS["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "ingot.support.versions.VERSION"
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+", ingot.__version__)


def test_extras_that_name_this_distribution_exist():
    extras = PROJECT["optional-dependencies"]
    named = [item for items in extras.values() for item in items if item.startswith("ingot")]
    assert named
    for item in named:
        given = re.fullmatch(rf"{NAME}\[(.*)\]", item)
        assert given, item
        assert set(given[1].split(",")) <= set(extras)


def test_the_compiler_runs_without_what_only_the_terminal_needs():
    code = """
import sys
sys.modules["rich"] = sys.modules["click"] = None  # importing one raises ModuleNotFoundError
import ingot, numpy
text = "HloModule m\\nENTRY e { x = f32[2] parameter(0)\\n ROOT y = f32[2] add(x, x) }"
print(ingot.compile(ingot.parse_hlo(text))(numpy.ones(2, numpy.float32)))
from ingot.__main__ import main
sys.exit(main(["opt", "--list-passes"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[2. 2.]\n", done.stderr
    assert done.returncode == 2
    assert f"pip install '{NAME}[cli]'" in done.stderr


def test_every_file_beside_the_code_is_packed():
    folder = ROOT / "src" / "ingot"
    packed = set(SETTINGS["tool"]["setuptools"]["package-data"]["ingot"])
    files = [path for path in folder.rglob("*") if path.is_file()]
    written = [path for path in files if path.parent.name != "__pycache__"]
    others = {path.relative_to(folder).as_posix() for path in written if path.suffix != ".py"}
    assert others == packed


def test_the_entry_points_lead_somewhere():
    assert PROJECT["entry-points"]["jax_plugins"] == {"ingot": "ingot.frontends.jax"}
    assert (ROOT / "src/ingot/frontends/jax/__init__.py").exists()
    assert PROJECT["scripts"] == {"ingot": "ingot.__main__:main"}


def test_what_a_release_names_fits_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {ingot.__version__}\n" in citation
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "[yyyy]" not in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_workflows_call_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    workflows = [path.read_text(encoding="utf-8") for path in ROOT.glob(".github/workflows/*.yml")]
    called = re.findall(
        r"(?:run: make|^ +-) ([a-z]+-?[a-z]+)\b(?= [A-Z]|\n)", "".join(workflows), re.M
    )
    assert {"check", "test", "wheel-test", "test-jax", "test-tensorflow"} <= set(called)
    assert set(called) <= targets

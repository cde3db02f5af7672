# SPDX-License-Identifier: Apache-2.0
"""The pages say what the code does: examples run and print that, links lead somewhere."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


doc_examples = load_tool("doc_examples")
PAGES = [path.relative_to(ROOT).as_posix() for path in doc_examples.pages()]
SLOW = {
    "docs/adding_an_op.md",
    "docs/serve.md",
    "docs/tensorflow_errors.md",
    "docs/tutorial_jax.md",
    "docs/tutorial_slow.md",
    "docs/tutorial_torch.md",
}
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow) if p in SLOW else p for p in PAGES],
)
def test_examples_print_what_the_page_says(page):
    command = [sys.executable, str(ROOT / "tools" / "doc_examples.py"), "--check", page]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_page_that_is_behind_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    assert "\n2\n" in doc_examples.refreshed(page)


def anchors(path):
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), f"{path.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{path.name} links to {link}"


def test_every_error_code_has_a_section():
    tool = load_tool("error_codes")
    documented = tool.documented()
    assert documented == sorted(documented)
    assert list(tool.raised()) == documented


def test_codes_in_docstrings_are_not_raised():
    tool = load_tool("error_codes")
    text = '"""Raises INGOT0123."""\nraise error(code="INGOT0456")\n'
    assert list(tool.codes_in(text)) == [("INGOT0456", 2)]

# SPDX-License-Identifier: Apache-2.0
"""Files that hold a source and, after the line `// EXPECT`, the text that something makes of it.

After `// EXPECT LINES pattern` the file holds just the lines that the regular expression matches,
all of them and in their order: what the file is about, and no more. `--bless` writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_MARK = re.compile(r"^// EXPECT(?: LINES (?P<pattern>.+))?\n", re.MULTILINE)


def expectation(path: Path) -> tuple[str, str, str, str]:
    """Return the source in a file, its mark, the pattern of a partial match, the expected text."""
    text = path.read_text()
    found = _MARK.search(text)
    if found is None:
        return text, "// EXPECT\n", "", ""
    return text[: found.start()], found[0], found["pattern"] or "", text[found.end() :]


def shown(text: str, pattern: str) -> str:
    """Return the lines of a text that a pattern matches, or all."""
    lines = text.rstrip().splitlines()
    return "".join(f"{line}\n" for line in lines if re.search(pattern, line))


def check_expected(path: Path, made: str, request: pytest.FixtureRequest) -> None:
    """Check that `made` is what a file expects; with `--bless`, write it there."""
    source, mark, pattern, expected = expectation(path)
    actual = shown(made, pattern)
    assert actual, "a test that expects no line cannot fail"
    if request.config.getoption("--bless"):
        path.write_text(f"{source}{mark}{actual}")
        return
    assert actual == expected

# SPDX-License-Identifier: Apache-2.0
"""Find the error codes that the source can raise; `docs/errors.md` has a section for each.

A code is a string constant `"INGOT0123"` in an expression; those in docstrings and comments do not
count.

Example:
    .venv/bin/python tools/error_codes.py
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
_CODE = re.compile(r"INGOT\d{4}")
_SECTION = re.compile(r"^## (INGOT\d{4})$", re.MULTILINE)


def codes_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the codes in a Python text, with their lines."""
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and _CODE.fullmatch(node.value):
            yield node.value, node.lineno


def raised() -> dict[str, list[str]]:
    """Return code -> places `file:line` in the source."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for code, line in codes_in(path.read_text(encoding="utf-8")):
            found.setdefault(code, []).append(f"{path.relative_to(ROOT)}:{line}")
    return dict(sorted(found.items()))


def documented() -> list[str]:
    """Return the codes that have a section, in the order of the page."""
    return _SECTION.findall(PAGE.read_text(encoding="utf-8"))


def main() -> int:
    """Print every code with its places; return 1 if the page has others."""
    places, sections = raised(), documented()
    for code, where in places.items():
        print(f"{code}  {', '.join(where)}{'' if code in sections else '  NOT IN docs/errors.md'}")
    for code in sorted(set(sections) - set(places)):
        print(f"{code}  is in docs/errors.md, but nothing raises it")
    return 0 if sorted(places) == sorted(sections) else 1


if __name__ == "__main__":
    sys.exit(main())

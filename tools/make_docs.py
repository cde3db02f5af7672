"""Write the generated reference pages into docs/: what tables in the code say, as pages.

Each page is made by a function next to the table, so a page is never wrong for long; with
`--check` nothing is written and a page that differs is an error.

Example:
    .venv/bin/python tools/make_docs.py
"""

import sys
from collections.abc import Callable
from pathlib import Path

from ingot.support import flags, xla_flags

DOCS = Path(__file__).resolve().parent.parent / "docs"


def switches() -> str:
    """Return the page of all switches, Ingot's and XLA's."""
    return flags.markdown() + "\n" + xla_flags.markdown()


PAGES: dict[str, Callable[[], str]] = {"switches.md": switches}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them when called with `--check`; return the exit status."""
    DOCS.mkdir(exist_ok=True)
    stale: list[str] = []
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if page.exists() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            page.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    if stale and "--check" in arguments:
        print(f"docs/ is behind the code: {', '.join(stale)}; run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

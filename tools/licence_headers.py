# SPDX-License-Identifier: Apache-2.0
"""Check that each source file begins with its licence in SPDX's form; `--write` adds what lacks.

The line comes before the docstring, so that a tool that scans licences needs nothing but the file.
Data, recorded outputs and pages are under the same licence by LICENSE alone.

Example:
    .venv/bin/python tools/licence_headers.py --write
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools", "examples", "benchmarks")
LICENCE = "SPDX-License-Identifier: Apache-2.0"
COMMENTS = {".py": "# ", ".c": "// "}
"""Suffix of a source file -> what begins its comments."""


def lacking(root: Path = ROOT) -> list[Path]:
    """Return the source files under `root` that do not begin with the licence."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]
    return [
        path
        for path in files
        if path.suffix in COMMENTS
        and path.read_text(encoding="utf-8").partition("\n")[0] != header(path)
    ]


def header(path: Path) -> str:
    """Return the first line of a source file."""
    return COMMENTS[path.suffix] + LICENCE


def main(arguments: list[str]) -> int:
    """Name the files without a header, or write the headers; return the exit status."""
    found = lacking()
    for path in found:
        if "--write" in arguments:
            text = path.read_text(encoding="utf-8")
            path.write_text(f"{header(path)}\n{text}", encoding="utf-8")
        else:
            print(f"{path.relative_to(ROOT)}: begins without '{header(path)}'; `make format`")
    return 1 if found and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Check that no Python file is longer than `LIMIT` lines, and print the median.

The design aims at files of about 200 lines that are split by meaning; a file over the limit fails
`make check`. Tables of data are exempt, by name, each with its reason.

Example:
    .venv/bin/python tools/file_size.py
"""

import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "tools", "examples", "benchmarks")
LIMIT = 600
# Path from the repository's root -> why it may be long. Only tables of data belong here.
EXEMPT: dict[str, str] = {}


def file_lengths(root: Path = ROOT) -> dict[str, int]:
    """Return the number of lines of every Python file under `root`, by relative path."""
    return {
        path.relative_to(root).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }


def too_long(lengths: dict[str, int], exempt: dict[str, str]) -> list[str]:
    """Return one complaint for each file over the limit that is not exempt."""
    return [
        f"{path}: {lines} lines, the limit is {LIMIT}; split it by meaning"
        for path, lines in lengths.items()
        if lines > LIMIT and path not in exempt
    ]


def main() -> int:
    """Print the complaints and the median; return the exit status."""
    lengths = file_lengths()
    complaints = too_long(lengths, EXEMPT)
    print("\n".join(complaints), end="\n" if complaints else "")
    median = statistics.median(lengths.values())
    longest = max(lengths, key=lengths.__getitem__)
    print(
        f"{len(lengths)} files, median {median:.0f} lines, longest {longest} ({lengths[longest]})"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

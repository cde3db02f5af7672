# SPDX-License-Identifier: Apache-2.0
"""Find the functions that may call themselves, and compare them with those that are allowed to.

How deep a program nests its loops, calls and operands is the user's business, so nothing may
recurse over that: Python's stack ends at a thousand calls. `recursion.txt` lists the functions that
may recurse, with what bounds them. Any other cycle of calls is a finding, and so is a line of the
list that no cycle needs.

Example:
    .venv/bin/python tools/recursion.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.call_graph import CallGraph  # noqa: E402
from tools.source_index import Index  # noqa: E402

LIST = ROOT / "tools" / "recursion.txt"


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of functions that reach each other (Tarjan, without recursion)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for start in edges:
        work = [(start, iter(sorted(edges[start])))] if start not in number else []
        while work:
            name, waiting = work[-1]
            if name not in number:
                number[name] = low[name] = len(number)
                path.append(name)
            called = next(waiting, None)
            if called is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    group = path[path.index(name) :]
                    del path[path.index(name) :]
                    low.update(dict.fromkeys(group, len(edges)))
                    found += [group] if len(group) > 1 or name in edges[name] else []
            elif called not in number:
                work.append((called, iter(sorted(edges[called]))))
            else:
                low[name] = min(low[name], low[called])
    return found


def allowed(text: str) -> dict[str, str]:
    """Return function -> what bounds it, from the list's text: headings, then names."""
    found: dict[str, str] = {}
    reason = ""
    for line in text.splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            found[line.strip()] = reason
    return found


def findings(package: Path, text: str) -> tuple[list[list[str]], list[str]]:
    """Return the cycles that the list does not break, and its lines that break none."""
    edges, known = CallGraph(Index(package)).edges, allowed(text)
    recursive = {name for group in cycles(edges) for name in group}
    kept = {name: called - known.keys() for name, called in edges.items() if name not in known}
    return cycles(kept), sorted(known.keys() - recursive)


def main() -> int:
    """Print what the list does not have; return 1 if there is any."""
    unknown, stale = findings(ROOT / "src" / "ingot", LIST.read_text(encoding="utf-8"))
    for group in unknown:
        print("recursion:", *sorted(group), sep="\n    ")
    for name in stale:
        print(f"{LIST.name}: {name} does not recurse")
    return 1 if unknown or stale else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Write the generated reference pages into docs/: what tables in the code say, as pages.

Each page is made by a function next to the table, so a page is never wrong for long; with
`--check` nothing is written and a page that differs is an error.

Example:
    .venv/bin/python tools/make_docs.py
"""

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field
from itertools import groupby
from pathlib import Path
from typing import Any

from ingot.frontends.tensorflow.lowering import coverage
from ingot.frontends.torch import coverage as torch_coverage
from ingot.hlo import opdef
from ingot.support import flags, tracing, xla_flags

DOCS = Path(__file__).resolve().parent.parent / "docs"


def flag_page() -> str:
    """Return the page of all flags, Ingot's and XLA's."""
    return "\n".join((flags.markdown(), tracing.markdown(), xla_flags.markdown()))


def arity_text(op: opdef.OpDef) -> str:
    """Return how many operands `op` takes: `2`, `1 to 3` or `1 or more`."""
    low, high = op.arity
    if high is None:
        return f"{low} or more" if low else "any number"
    return str(low) if low == high else f"{low} to {high}"


def attribute_text(attribute: Field[Any]) -> str:
    """Return an attribute as HLO text names it, with how it is written and its default."""
    name = attribute.metadata["text"] or attribute.name
    codec = attribute.metadata["codec"].name.lower()
    default = "" if attribute.default is MISSING else f" = {attribute.default!r}"
    return f"`{name}`: {codec}{default}"


def ops() -> str:
    """Return the op reference: every opcode of the table, by family."""
    table = sorted(
        opdef.table().values(), key=lambda op: (opdef.FAMILIES.index(op.family), op.name)
    )
    lines = ["# Ops", "", f"The {len(table)} opcodes that Ingot reads, checks and prints."]
    lines.append("Which of them take which element types is in [coverage.md](coverage.md).")
    for family, members in groupby(table, key=lambda op: op.family):
        lines += ["", f"## {family.capitalize()}", ""]
        lines += ["| op | operands | attributes | traits | meaning |", "|---|---|---|---|---|"]
        for op in members:
            attributes = "<br>".join(attribute_text(attribute) for attribute in op.fields)
            traits = ", ".join(sorted(trait.name.lower() for trait in op.traits))
            meaning = op.doc.replace("|", "\\|")
            lines.append(
                f"| `{op.name}` | {arity_text(op)} | {attributes} | {traits} | {meaning} |"
            )
    return "\n".join(lines) + "\n"


def constraints() -> str:
    """Return the page of the constraints of ops; its bad instructions are with the tests."""
    sys.path.insert(0, str(DOCS.parent))
    from tools.constraints_page import markdown

    return markdown()


PAGES: dict[str, Callable[[], str]] = {
    "constraints.md": constraints,
    "ops.md": ops,
    "flags.md": flag_page,
    "tensorflow_ops.md": coverage.markdown,
    "torch_ops.md": torch_coverage.markdown,
}


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

# SPDX-License-Identifier: Apache-2.0
"""Write docs/constraints.md: the StableHLO specification's constraints, and who checks each.

`tests/hlo/constraints` holds the labels of the specification's constraints, a bad instruction for
each that is checked, and the reason for each that is not. Where a constraint is checked is found by
giving the bad instruction to the parser. `make docs` writes the page.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import groupby

from tests.hlo.constraint_cases import FOLDER, Case, place_of, read_cases, refusal

_SPEC = "https://openxla.org/stablehlo/spec"
_HEAD = f"""# Constraints of ops

What the verifier demands of every instruction, by the labels of the
[StableHLO specification]({_SPEC}). For each constraint: the check that refuses a module that breaks
it, and such an instruction. The error (INGOT0210) names the label; the specification explains it.
`tests/hlo/test_constraints.py` gives every one of these instructions to the parser.
"""


def read_labels() -> list[str]:
    """Return the labels of the specification's constraints, in its order."""
    return _lines("stablehlo")


def read_reasons() -> dict[str, str]:
    """Return why constraints are not checked, by patterns of their labels."""
    return {key: text for key, _, text in (line.partition(": ") for line in _lines("not_checked"))}


def _lines(name: str) -> list[str]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def reason_of(label: str, reasons: dict[str, str]) -> str:
    """Return why a constraint is not checked; "" if no reason is given."""
    return next((text for key, text in reasons.items() if fnmatchcase(label, key)), "")


def markdown() -> str:
    """Return the page."""
    labels, reasons = read_labels(), read_reasons()
    cases: dict[str, Case] = {}
    for case in read_cases():
        cases.setdefault(case.label, case)
    checked = [label for label in labels if label in cases]
    further = [label for label in cases if label not in labels]
    lines = [
        _HEAD,
        f"The specification has {len(labels)} constraints: {len(checked)} are checked, each with a "
        f"test; {len(labels) - len(checked)} cannot be broken in HLO, or XLA does not make them:",
        f"the table says why. {len(further)} further checks are of operands and of XLA's ops.",
        "",
    ]
    for op, of_op in groupby(labels, key=_op_of):
        lines += [f"## [{op}]({_SPEC}#{op})", "", "| | checked in | refused |", "|---|---|---|"]
        lines += [_row(label, cases.get(label), reasons) for label in of_op]
        lines.append("")
    lines += ["## Types of operands, and XLA's own ops", ""]
    lines += ["| | checked in | refused |", "|---|---|---|"]
    lines += [
        f"| {label} | {_where(cases[label])} | `{_cell(str(cases[label]))}` |" for label in further
    ]
    return "\n".join(lines) + "\n"


def _row(label: str, case: Case | None, reasons: dict[str, str]) -> str:
    number = label.rpartition("_")[2].upper()
    if case is None:
        return f"| {number} | | {reason_of(label, reasons)} |"
    return f"| {number} | {_where(case)} | `{_cell(str(case))}` |"


def _where(case: Case) -> str:
    error = refusal(case)
    return f"`{place_of(error)}`" if error is not None else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _op_of(label: str) -> str:
    return label.rpartition("_")[0]

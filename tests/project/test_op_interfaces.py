# SPDX-License-Identifier: Apache-2.0
"""What an op is for the compiler is said in its row: few lists of opcodes, few files per op."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.project.opcode_sets import LEFT_OUT, opcode_sets
from tests.project.rotation import DECLARATIONS, FILES

from ingot.hlo.interfaces import FusionClass, RegionKind, Trait, ops_with
from ingot.hlo.opdef import define, find, opcodes, table
from ingot.support.diagnostics import VerifyError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "ingot"

MOST_SETS = 30
"""A new list of opcodes is a question that a row should answer: make it a trait and ask `ops_with`.
Where it is one rule's own, take another list away. Lower this number with each that goes."""


def test_lists_of_opcodes_do_not_grow() -> None:
    opcodes = set(table())
    found = [
        f"{path.relative_to(SOURCES)}:{line} {' '.join(names)}"
        for path in sorted(SOURCES.rglob("*.py"))
        if not path.relative_to(SOURCES).as_posix().startswith(LEFT_OUT)
        for line, names in opcode_sets(path.read_text(encoding="utf-8"), opcodes)
    ]
    assert len(found) <= MOST_SETS, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('x in ("add", "multiply")', 1),
        ('_A = frozenset({"add", "multiply"}) | {"dot"}', 1),
        ('match x:\n    case "add" | "dot":\n        pass', 1),
        ('ops_with(Trait.LEAF, also=["tuple", "copy"])', 1),
        ('{"add": f, "dot": g}', 0),
        ('("add", "nothing")', 0),
        ('("add", x)', 0),
    ],
)
def test_lists_of_opcodes_are_found(text: str, count: int) -> None:
    assert len(list(opcode_sets(text, set(table())))) == count


def test_a_new_shaping_op_takes_four_files() -> None:
    assert len(FILES) <= 4
    assert all((ROOT / path).is_file() for path in (*DECLARATIONS, "docs/ops.md"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.project.rotation"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rotate" not in table()


def test_sets_follow_the_table() -> None:
    for one in (*Trait, *FusionClass, *RegionKind):
        rows = [d for d in table().values() if one in (*d.traits, d.fusion, d.regions)]
        assert ops_with(one) == {row.name for row in rows}
        assert rows, f"no op is {one}"
    assert ops_with(Trait.LEAF, also=("tuple",)) == {"parameter", "constant", "tuple"}
    assert ops_with(Trait.COLLECTIVE) <= ops_with(Trait.SIDE_EFFECT)
    assert set(opcodes(lambda row: row.has(Trait.BARRIER))) == ops_with(Trait.BARRIER)


def test_what_calls_says_how() -> None:
    row = find("call")
    with pytest.raises(VerifyError, match="again has computations without a kind of regions"):
        define("again", family="control", arity=1, infer=row.infer, attributes=row.attributes)
    assert "again" not in table()

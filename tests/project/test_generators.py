# SPDX-License-Identifier: Apache-2.0
"""No test draws from a generator that others share: its numbers would depend on their order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MAKERS = ("default_rng", "RandomState", "Random", "Generator")


def shared_generators(text: str) -> list[str]:
    """Return the names that a module gives to random generators at its top level."""
    found = []
    for statement in ast.parse(text).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        made = statement.value
        if isinstance(made, ast.Call):
            function = made.func
            name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found += [ast.unparse(target) for target in targets if name in MAKERS]
    return found


@pytest.mark.slow  # it reads all tests
def test_no_test_file_has_a_generator_of_its_own() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in sorted(TESTS.rglob("test_*.py"))
        if (names := shared_generators(path.read_text(encoding="utf-8")))
    }
    assert not found, "use the fixture `generator`, or np.random.default_rng in the test"


def test_shared_generators_are_found() -> None:
    text = "import numpy as np\na = np.random.default_rng(0)\nb: Random = Random(1)\n"
    assert shared_generators(text) == ["a", "b"]
    assert shared_generators("x = np.random.default_rng(0).random(3)\n") == []
    assert shared_generators("def f():\n    a = default_rng()\n") == []

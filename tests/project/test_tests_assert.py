# SPDX-License-Identifier: Apache-2.0
"""Every test asserts: it has `assert`, `pytest.raises`, or calls a helper whose name says that."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAYS_SO = re.compile(r"_?(assert|raises|warns|fail|check|agrees|expect)")
"""In the name of what a test calls: `np.testing.assert_array_equal`, `agrees`, `check_body`."""


def each_test(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the tests of a file: functions of the module and of its classes."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(found.body for found in classes)):
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                yield node


def name_called(node: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def asserts(test: ast.FunctionDef) -> bool:
    """Whether something in a test can fail, as far as names say."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and SAYS_SO.match(name_called(node)))
        for statement in test.body
        for node in ast.walk(statement)
    )


def test_every_test_asserts():
    silent = [
        f"{path.relative_to(ROOT)}:{test.lineno} {test.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in each_test(ast.parse(path.read_text("utf-8")))
        if not asserts(test)
    ]
    assert not silent, "assert something, or let the helper's name say that it does"


def test_a_test_without_assertions_is_found():
    source = """
def test_nothing():
    run(1)
class TestMore:
    def test_refusal(self):
        with pytest.raises(ValueError):
            run(2)
    def test_helper(self):
        def assert_never_called(): pass
        compare(run(3))
"""
    found = {test.name: asserts(test) for test in each_test(ast.parse(source))}
    assert found == {"test_nothing": False, "test_refusal": True, "test_helper": False}

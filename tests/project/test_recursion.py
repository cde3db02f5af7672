# SPDX-License-Identifier: Apache-2.0
"""No function recurses over what a program nests: the list of those that may is complete."""

import textwrap
from pathlib import Path

import pytest
from tools.recursion import LIST, ROOT, findings


@pytest.mark.slow  # it reads all of src
def test_only_listed_functions_recurse():
    unknown, stale = findings(ROOT / "src" / "ingot", LIST.read_text(encoding="utf-8"))
    assert unknown == [], (
        f"these call themselves: use ingot.support.trampoline, or a loop; if their depth is "
        f"bounded, say by what in {LIST.name}"
    )
    assert stale == []


def _package(folder: Path, text: str) -> Path:
    package = folder / "sample"
    package.mkdir()
    (package / "one.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return package


_PROGRAMS = {
    "itself": "def f(x):\n    return f(x - 1)\n",
    "two": "def f(x):\n    return g(x)\n\ndef g(x):\n    return [f(y) for y in x]\n",
    "method": """
        class Tree:
            inner: "list[Tree]"
            def depth(self) -> int:
                return 1 + max(one.depth() for one in self.inner)
        """,
    "overriding": """
        class Base:
            def visit(self): ...
            def walk(self): self.visit()
        class Derived(Base):
            def visit(self): self.walk()
        """,
    "table": """
        RULES = {}
        def rule(function):
            RULES[function.__name__] = function
            return function
        def apply(name):
            return RULES[name]()
        @rule
        def nested():
            return apply("nested")
        """,
    "passed on": "def f(x):\n    return list(map(f, x))\n",
}


@pytest.mark.parametrize("text", _PROGRAMS.values(), ids=_PROGRAMS)
def test_recursion_is_found(text, tmp_path):
    unknown, _ = findings(_package(tmp_path, text), "")
    assert len(unknown) == 1


def test_a_listed_function_breaks_its_cycle(tmp_path):
    package = _package(tmp_path, _PROGRAMS["two"])
    assert findings(package, "# why\nsample.one:f\n") == ([], [])
    assert findings(package, "# why\nsample.one:f\nsample.one:h\n")[1] == ["sample.one:h"]


def test_a_call_that_is_yielded_is_no_recursion(tmp_path):
    unknown, _ = findings(_package(tmp_path, "def f(x):\n    return (yield f(x - 1))\n"), "")
    assert unknown == []

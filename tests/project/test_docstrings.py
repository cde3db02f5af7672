# SPDX-License-Identifier: Apache-2.0
"""The compiler's public functions say what they do, what they are given and what they raise."""

import ast
import re

import pytest
from tests.project.test_structure import ROOT, relative

MIDDLE = tuple(
    ROOT / "src" / "ingot" / name for name in ("analysis", "cpu", "emit", "hlo", "kernel", "passes")
)
FOLDERS = sorted({path.parent for folder in MIDDLE for path in folder.rglob("*.py")})
MANY = 4
"""A function of so many parameters describes some of them, or says where they are described."""

RAISES = re.compile(r"\braises?\b|\b\w+Error\b", re.IGNORECASE)


def public_functions(body):
    """Yield the functions of a module, and the methods of its public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body)
        elif isinstance(node, ast.FunctionDef):
            is_overload = any("overload" in ast.unparse(one) for one in node.decorator_list)
            is_public = not node.name.startswith("_") or node.name == "__init__"
            if is_public and not is_overload:
                yield node


def own_statements(function):
    """Yield the nodes of a function's body without those of functions in it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def parameters(function):
    given = function.args
    plain = (*given.posonlyargs, *given.args, *given.kwonlyargs)
    names = [one.arg for one in (*plain, given.vararg, given.kwarg) if one is not None]
    return [name for name in names if name not in ("self", "cls")]


def describes_arguments(function):
    """Whether a docstring names a parameter, or mentions the arguments, or need not.

    The parameters of rules are the variables of their patterns.
    """
    text, names = ast.get_docstring(function) or "", parameters(function)
    if len(names) < MANY or any("rule" in ast.unparse(one) for one in function.decorator_list):
        return True
    words = set(re.findall(r"\w+", text))
    return bool(words & {*names, "Args", "argument", "arguments"})


def says_what_it_raises(function):
    is_raising = any(
        isinstance(node, ast.Raise) and node.exc is not None for node in own_statements(function)
    )
    text = ast.get_docstring(function) or ""
    return not is_raising or RAISES.search(text) is not None


RULES = {
    "has no docstring": lambda one: ast.get_docstring(one) is not None,
    "describes no argument": describes_arguments,
    "does not say what it raises": says_what_it_raises,
}


def complaints(text):
    """Return what the functions of a module lack, as (line, name, what)."""
    return [
        (one.lineno, one.name, what)
        for one in public_functions(ast.parse(text).body)
        for what, holds in RULES.items()
        if not holds(one)
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_public_functions_are_described(folder):
    found = {
        relative(path): complaints(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.py"))
    }
    assert {name: lacking for name, lacking in found.items() if lacking} == {}


def test_undescribed_functions_are_found():
    text = '''
class Public:
    def __init__(self, size):
        self.size = size

    def method(self, a, b, c, d):
        """Do it with these: an area."""

    def good(self, a, b, c, d):
        """Do it with `a`."""

class _Private:
    def method(self):
        raise ValueError

def outer():
    """Return a function."""
    def inner():
        raise ValueError
    return inner

def strict(x):
    """Return x."""
    if x:
        raise ValueError("no")

def honest(x):
    """Return x; ValueError if it is true."""
    if x:
        raise ValueError("no")
'''
    assert complaints(text) == [
        (3, "__init__", "has no docstring"),
        (6, "method", "describes no argument"),
        (22, "strict", "does not say what it raises"),
    ]

# SPDX-License-Identifier: Apache-2.0
"""The compiler's public functions say what they do, its packages which module does what."""

import ast
import re

import pytest
from tests.project.test_structure import ROOT, relative

SRC = ROOT / "src" / "ingot"
MIDDLE = tuple(SRC / name for name in ("analysis", "cpu", "emit", "hlo", "kernel", "passes"))
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


PACKAGES = sorted(path.parent for path in SRC.rglob("__init__.py"))


def members(package):
    """Return the names of the modules and packages in a package."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def docstring_of(package):
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""


def names_in(docstring):
    """Return what a docstring has in backticks that looks like a module or what it defines."""
    return set(re.findall(r"`([a-z_]\w*(?:\.\w+)*)`", docstring))


NOT_OURS = {
    *("iota", "load_library", "pmap", "shard_map", "new_rendezvous"),
    *("jax_plugins", "jit_scope", "set_jit"),
    *("break", "continue", "if", "max", "min", "return", "while"),
}
"""Names in docstrings of packages that are no module: an op, functions, Python's own words."""


def defined_in(package):
    """Return the words in the code of a package itself: what it imports, defines and exports."""
    (_, *code) = ast.parse((package / "__init__.py").read_text("utf-8")).body
    return set(re.findall(r"\w+", "\n".join(map(ast.unparse, code))))


def is_known(name, package):
    """Whether the module of a name is in a package or in one around it."""
    around = [
        package,
        *(above for above in package.parents if SRC.parent in (above, *above.parents)),
    ]
    first, *rest = name.split(".")
    homes = [above for above in around if first in members(above)]
    if not homes:
        return name in NOT_OURS or first in defined_in(package)
    inner = homes[0] / first
    return not rest or not inner.is_dir() or rest[0] in members(inner)


@pytest.mark.parametrize("package", PACKAGES, ids=relative)
def test_packages_name_their_modules(package):
    names = names_in(docstring_of(package))
    assert members(package) - {name.partition(".")[0] for name in names} == set()
    assert {name for name in names if not is_known(name, package)} == set()


def test_names_that_are_gone_are_found():
    assert names_in("By `pipeline` (`kernel.ir`, `Kernel`), `a + b`.") == {"pipeline", "kernel.ir"}
    assert is_known("kernel.ir", SRC / "cpu")
    assert is_known("ingot.emit", SRC / "cpu" / "emit")
    assert not is_known("kernel.gone", SRC / "cpu")
    assert not is_known("ir", SRC / "cpu")

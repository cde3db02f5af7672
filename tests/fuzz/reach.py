"""What cases reached of the compiler: rewrite rules by name, and functions by file.

Rules are counted where they fire. Functions are noted by Python's profiling hook, which slows
everything down several times: a campaign asks for it in some of its workers, with no cache of
compiled objects, so that templates are emitted and not loaded.

`all_rules` and `all_functions` say what there is to be reached; a function that only other parts of
the compiler can ask for (a debug print) counts like any other.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ingot
from ingot.hlo.rewrite import driver
from ingot.hlo.rewrite.pass_base import Firing
from ingot.passes.simplify.algsimp.rules import RULES

ROOT = Path(ingot.__file__).parent
FOLDERS = ("kernel", "cpu", "passes", "llvm/math")
"""Where strategies, templates and passes are written."""


class Reach:
    """Counts what is reached inside `with` blocks."""

    def __init__(self, *, functions: bool) -> None:
        """Have reached nothing; note functions too if asked for."""
        self.rules: Counter[str] = Counter()
        self._functions = functions
        self._codes: set[CodeType] = set()
        driver.Firing = self._fired  # type: ignore[misc,assignment]

    def _fired(self, name: str, *rest: Any) -> Firing:
        self.rules[name] += 1
        return Firing(name, *rest)

    def __enter__(self) -> None:
        """Begin to note."""
        if self._functions:
            sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        """Note no more."""
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def counts(self) -> dict[str, Any]:
        """Return what was reached since the last call."""
        prefix = f"{ROOT}/"
        functions = sorted(
            f"{code.co_filename.removeprefix(prefix)}:{code.co_qualname}"
            for code in self._codes
            if code.co_filename.startswith(prefix)
        )
        found = {"rules": dict(self.rules), "functions": functions}
        self.rules.clear()
        self._codes.clear()
        return found


def all_rules() -> list[str]:
    """Return the names of all rewrite rules."""
    return [entry.name for entry in RULES.rules]


def all_functions() -> list[str]:
    """Return every function of the folders of strategies, as `file:qualified name`."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            found += [f"{name}:{inner}" for inner in _functions(ast.parse(path.read_text()), "")]
    return found


def _functions(tree: ast.AST, prefix: str) -> list[str]:
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            found.append(prefix + node.name)
            found += _functions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            found += _functions(node, f"{prefix}{node.name}.")
        else:
            found += _functions(node, prefix)
    return found

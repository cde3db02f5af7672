# SPDX-License-Identifier: Apache-2.0
"""What cases reached of the compiler, by kind: rules, passes, strategies, templates, functions.

* *rules* of rewriting that fired, by name;
* *passes* that changed a module, or a kernel;
* *strategies*: choices of `kernel/` (`tests.fuzz.choices`);
* *templates*: choices of `cpu/`, math functions with the type they were emitted for, and the public
  functions of emitters and of the library;
* *functions*: all of `kernel/`, `cpu/`, `passes/` and `llvm/math`.

All but functions are noted where they happen, at next to no cost. Functions are noted by Python's
profiling hook, which slows everything down several times: a campaign asks for it in some of its
workers, with no cache of compiled objects, so that templates are emitted and not loaded.

`all_of` says what there is to be reached; a function that only other parts of the compiler can ask
for (a debug print) counts like any other.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz import choices

import ingot
from ingot.hlo.rewrite import driver, pass_runner
from ingot.hlo.rewrite.pass_base import Firing, PassTiming

KINDS = ("rules", "passes", "strategies", "templates", "functions")
ROOT = Path(ingot.__file__).parent
FOLDERS = ("kernel", "emit", "cpu", "passes", "llvm/math")
"""Where strategies, templates and passes are written."""

_EMITTERS = ("cpu/emit/", "cpu/library/", "cpu/strategies/", "emit/", "llvm/math/")
_MATH = "llvm.math"


class Reach:
    """Notes what is reached inside `with` blocks, and passes and choices anywhere."""

    def __init__(self, *, functions: bool) -> None:
        """Have reached nothing; note functions too if asked for."""
        self._found: dict[str, set[str]] = defaultdict(set)
        self._functions = functions
        self._codes: set[CodeType] = set()
        driver.Firing = self._fired  # type: ignore[misc,assignment]
        pass_runner.PassTiming = self._timed  # type: ignore[misc,assignment]
        choices.watch(self._chosen)
        _watch_math(self._found["templates"].add)

    def _fired(self, name: str, *rest: Any) -> Firing:
        self._found["rules"].add(name)
        return Firing(name, *rest)

    def _timed(self, pipeline: str, name: str, spent: int, changed: bool) -> PassTiming:
        if changed:
            self._found["passes"].add(name)
        return PassTiming(pipeline, name, spent, changed)

    def _chosen(self, choice: str) -> None:
        self._found["strategies" if choice.startswith("kernel.") else "templates"].add(choice)

    def __enter__(self) -> None:
        """Begin to note functions."""
        if self._functions:
            threading.setprofile(self._note)  # of threads that begin from here on
            sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        """Note no more of them."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def names(self) -> dict[str, list[str]]:
        """Return what was reached since the last call, by kind."""
        prefix = f"{ROOT}/"
        self._found["functions"] |= {
            f"{code.co_filename.removeprefix(prefix)}:{code.co_qualname}"
            for code in self._codes
            if code.co_filename.startswith(prefix)
        }
        self._found["templates"] |= set(filter(_is_template, self._found["functions"]))
        made = {kind: sorted(self._found[kind]) for kind in KINDS}
        for names in self._found.values():
            names.clear()
        self._codes.clear()
        return made


def _watch_math(note: Any) -> None:
    from ingot.llvm.math import MathFunction

    emit = MathFunction.__call__

    def emitted(self: Any, f: Any, *args: Any, **options: Any) -> Any:
        note(f"{_MATH}: {self.name} of {args[0].type.element.text}")
        return emit(self, f, *args, **options)

    MathFunction.__call__ = emitted  # type: ignore[method-assign]


@cache
def all_of(kind: str) -> tuple[str, ...]:
    """Return the names of everything of a kind."""
    return tuple({"rules": _rules, "passes": _passes, "strategies": _strategies,
                  "templates": _templates, "functions": _all_functions}[kind]())  # fmt: skip


def _rules() -> Iterator[str]:
    from ingot.passes.simplify.algsimp.rules import RULES

    for entry in RULES.rules:
        yield entry.name


def _passes() -> list[str]:
    from ingot.cpu.pipeline import PIPELINE
    from ingot.hlo.rewrite.pass_base import passes_of
    from ingot.kernel.passes.pipeline import KERNEL_PASSES

    return list(dict.fromkeys(item.name for item in (*passes_of(PIPELINE), *KERNEL_PASSES)))


def _strategies() -> list[str]:
    asked = {choices.function_label(function) for _, function in choices.deciders().values()}
    return [*choices.all_choices("ingot.kernel"), *sorted(asked)]


def _templates() -> list[str]:
    from ingot.llvm.math import MATH
    from ingot.llvm.types import F32, F64

    functions = [f"{_MATH}: {name} of {type.text}" for name in MATH for type in (F32, F64)]
    emitters = filter(_is_template, all_of("functions"))
    return [*choices.all_choices("ingot.cpu"), *functions, *emitters]


def _is_template(function: str) -> bool:
    """Whether a function of an emitter is public, with all that it stands in."""
    path, _, name = function.partition(":")
    return path.startswith(_EMITTERS) and not any(
        part.startswith(("_", "<")) for part in name.split(".")
    )


def _all_functions() -> Iterator[str]:
    """Yield every function of the folders of strategies, as `file:qualified name`."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for inner in _functions(ast.parse(path.read_text()), ""):
                yield f"{name}:{inner}"


def _functions(tree: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
            yield from _functions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)

# SPDX-License-Identifier: Apache-2.0
"""What a package defines: functions, classes and names by module, from its syntax trees.

`call_graph` looks names up here. Nothing is imported or run.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(eq=False)
class Function:
    """A function or method; `inner` are those defined in it, by name."""

    name: str
    node: ast.FunctionDef
    module: str
    owner: Class | None
    outer: Function | None
    inner: dict[str, object] = field(default_factory=dict)

    @property
    def is_property(self) -> bool:
        """Whether reading its name calls it."""
        names = {ast.unparse(one).rpartition(".")[2] for one in self.node.decorator_list}
        return bool(names & {"property", "cached_property"})


@dataclass(eq=False)
class Class:
    """A class; `fields` are annotations or the values assigned to `self.name`, with where."""

    name: str
    node: ast.ClassDef
    module: str
    methods: dict[str, Function] = field(default_factory=dict)
    fields: dict[str, tuple[Function | None, ast.expr | None, ast.expr | None]] = field(
        default_factory=dict
    )
    bases: list[Class] = field(default_factory=list)
    derived: list[Class] = field(default_factory=list)

    def above(self) -> list[Class]:
        """Return the class and its bases, nearest first."""
        found = [self]
        for one in found:
            found += [base for base in one.bases if base not in found]
        return found

    def below(self) -> list[Class]:
        """Return the class and all that derive from it."""
        found = [self]
        for one in found:
            found += [other for other in one.derived if other not in found]
        return found


@dataclass(frozen=True, eq=False)
class Variable:
    """A name that a module assigns."""

    module: str
    value: ast.expr | None
    annotation: ast.expr | None


@dataclass(frozen=True)
class Imported:
    """A name that a module imports."""

    module: str
    name: str


class Index:
    """All modules of a package."""

    def __init__(self, root: Path) -> None:
        """Read every file under `root`."""
        self.scopes: dict[str, dict[str, object]] = {}
        self.functions: dict[str, Function] = {}
        self.classes: list[Class] = []
        self.methods: dict[str, set[str]] = defaultdict(set)
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self._read(module, ast.parse(path.read_text(encoding="utf-8")))
        for one in self.classes:
            self._complete(one)

    def _read(self, module: str, tree: ast.Module) -> None:
        scope = self.scopes[module] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    scope.setdefault(name.asname or name.name, Imported(node.module, name.name))
            elif isinstance(node, ast.Import):
                for name in node.names:
                    scope.setdefault(name.asname or name.name.split(".")[0], name.name)
        self._define(module, tree.body, "", scope, None, None)
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            target = node.target if isinstance(node, ast.AnnAssign) else target
            if isinstance(target, ast.Name):
                known = Variable(module, node.value, getattr(node, "annotation", None))
                scope.setdefault(target.id, known)

    def _define(self, module, body, prefix, scope, owner, outer) -> None:
        for node in body:
            if isinstance(node, FUNCTIONS):
                self._define_function(module, node, prefix, scope, owner, outer)
            elif isinstance(node, ast.ClassDef):
                made = scope[node.name] = Class(f"{module}:{prefix}{node.name}", node, module)
                self.classes.append(made)
                self._define(module, node.body, f"{prefix}{node.name}.", {}, made, outer)
            else:
                inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]
                self._define(module, inner, prefix, scope, owner, outer)

    def _define_function(self, module, node, prefix, scope, owner, outer) -> None:
        made = Function(f"{module}:{prefix}{node.name}", node, module, owner, outer)
        self.functions[made.name] = made
        if owner is None:
            scope[node.name] = made
        else:
            owner.methods[node.name] = made
            self.methods[node.name].add(made.name)
        self._define(module, node.body, f"{prefix}{node.name}.", made.inner, None, made)

    def _complete(self, one: Class) -> None:
        for base in one.node.bases:
            found = base.value if isinstance(base, ast.Subscript) else base
            above = self.find(one.module, found.id) if isinstance(found, ast.Name) else None
            if isinstance(above, Class):
                one.bases.append(above)
                above.derived.append(one)
        for node in one.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                one.fields[node.target.id] = (None, node.annotation, None)
        for method in one.methods.values():
            for node in ast.walk(method.node):
                self._note_field(one, method, node)

    @staticmethod
    def _note_field(one: Class, method: Function, node: ast.AST) -> None:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            is_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
            if is_self and target.value.id == "self":
                known = (method, getattr(node, "annotation", None), node.value)
                one.fields.setdefault(target.attr, known)

    def find(self, module: str, name: str) -> object:
        """Return what `name` is in `module`: Function, Class, Variable, a module's name or None."""
        found = self.scopes.get(module, {}).get(name)
        for _ in range(6):
            if not isinstance(found, Imported):
                break
            inner = f"{found.module}.{found.name}"
            held = self.scopes.get(found.module, {})
            found = held.get(found.name, inner if inner in self.scopes else "")
        return found

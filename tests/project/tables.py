# SPDX-License-Identifier: Apache-2.0
r"""Finds what a process may fill for ever: memo decorators, and containers of modules and classes.

A table is bounded if its own type says so (`lru_cache` with a size, `RecentTable`) or if it holds
its values weakly (`InternTable`, `WeakValueDictionary`). Any other container that stands in a
module or class and that a function changes, and any `cache` of a function with arguments and
without a size, is for `tables_of` to name and for a person to give a reason. A container that
begins empty counts as one that is changed: through another name, if no function is seen to.

Example:
    >>> sorted(tables_of("_seen = {}\ndef note(x):\n    _seen[x] = 1\n"))
    ['_seen']
    >>> sorted(tables_of("_seen = {1: 2}\ndef ask(x):\n    return _seen[x]\n"))
    []
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_CONTAINERS = frozenset(
    ("Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set", "WeakKeyDictionary")
)
_DISPLAYS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_CHANGES = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
        *("remove", "setdefault", "update", "put"),
    )
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def tables_of(text: str) -> set[str]:
    """Return the names of the tables of a module's text that nothing bounds."""
    tree = ast.parse(text)
    rows = list(_held(tree, ""))
    found = _memos(tree, "") | {name for name, value in rows if _is_empty(value)}
    filled = {name for name, _ in rows} - found
    if filled:
        changed = {name for scope in _outermost_scopes(tree) for name in _changed(scope)}
        found |= {name for name in filled if name.split(".")[-1] in changed}
    return found


def _outermost_scopes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            yield child
        else:
            yield from _outermost_scopes(child)


def _name_of(node: ast.AST) -> str:
    """Return the last name of `a.b.c`, of a call or of a subscript of it; "" for others."""
    if isinstance(node, ast.Call):
        return _name_of(node.func)
    if isinstance(node, ast.Subscript):
        return _name_of(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _memos(node: ast.AST, prefix: str) -> set[str]:
    """Return the functions outside of functions that remember all their results."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "")
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = child.args.posonlyargs + child.args.args + child.args.kwonlyargs
            if arguments and any(map(_is_endless, child.decorator_list)):
                found.add(prefix + name)
        elif isinstance(child, ast.ClassDef):
            found |= _memos(child, f"{prefix}{name}.")
        elif isinstance(child, ast.Assign) and isinstance(child.value, ast.Call):
            if _is_endless(child.value.func):
                found |= {prefix + _name_of(target) for target in child.targets}
        else:
            found |= _memos(child, prefix)
    return found


def _is_endless(decorator: ast.expr) -> bool:
    """Whether a decorator, or what is called as one, is `cache` or an `lru_cache` without end."""
    if _name_of(decorator) == "cache":
        return True
    if _name_of(decorator) != "lru_cache" or not isinstance(decorator, ast.Call):
        return False
    sizes = [*decorator.args[:1], *(k.value for k in decorator.keywords if k.arg == "maxsize")]
    return any(isinstance(size, ast.Constant) and size.value is None for size in sizes)


def _held(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of modules and classes that hold a container which may grow."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _held(child, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.Assign, ast.AnnAssign)):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            if child.value is not None and _may_grow(child.value):
                for target in targets:
                    yield prefix + _name_of(target), child.value
        elif not isinstance(child, _SCOPES):
            yield from _held(child, prefix)


def _may_grow(value: ast.expr) -> bool:
    return isinstance(value, _DISPLAYS) or (
        isinstance(value, ast.Call) and _name_of(value) in _CONTAINERS
    )


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        is_empty = not value.args and not value.keywords
        return is_empty or _name_of(value) in ("defaultdict", "deque")
    return not any(map(bool, (getattr(value, "keys", ()), getattr(value, "elts", ())))) and (
        isinstance(value, (ast.Dict, ast.List, ast.Set))
    )


def _changed(scope: ast.AST) -> Iterator[str]:
    """Yield the names of what a function changes in place, nested functions included."""
    local = {
        node.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(scope):
        for target in _targets(node):
            name = _name_of(target)
            if not (isinstance(target, ast.Name) and name in local):
                yield name


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a statement or call changes in place."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CHANGES
    ):
        yield node.func.value

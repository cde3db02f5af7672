# SPDX-License-Identifier: Apache-2.0
"""The syntax of native functions, from their source files.

Invariant: a file is parsed once for a module, however many functions of it are translated.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

from ingot.support.diagnostics import InternalError


def definition_of(function: Any, files: dict[str, Any]) -> ast.FunctionDef:
    """Return the syntax of a function; `files` holds those that were parsed before.

    Raises:
        InternalError: its source cannot be found.
    """
    code = function.__code__
    file = code.co_filename
    known = files.get(file)
    if known is None:
        text = "".join(linecache.getlines(file, function.__globals__))
        known = files[file] = _definitions(ast.parse(text, file))
    found = known.get(code.co_firstlineno)
    if found is None:
        raise InternalError(f"there is no source of '{function.__name__}' in {file}")
    return found


def _definitions(tree: ast.Module) -> dict[int, ast.FunctionDef]:
    """Return the decorated functions of a file, by their first lines."""
    found: dict[int, ast.FunctionDef] = {}
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            found[node.decorator_list[0].lineno] = node
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.If)):
            waiting.extend(node.body)
    return found

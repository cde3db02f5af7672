# SPDX-License-Identifier: Apache-2.0
"""The syntax of native functions, from their source files.

Invariant: a file is parsed once, however many functions of it are translated one after the other.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import Any

from ingot.support.diagnostics import InternalError

FILES = 8
"""Files whose syntax is kept: a kernel's functions are in a few, and several modules need them."""


def definition_of(function: Any) -> ast.FunctionDef:
    """Return the syntax of a function.

    Raises:
        InternalError: its source cannot be found.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    found = _definitions(text, code.co_filename).get(code.co_firstlineno)
    if found is None:
        raise InternalError(f"there is no source of '{function.__name__}' in {code.co_filename}")
    return found


@lru_cache(maxsize=FILES)
def _definitions(text: str, file: str) -> dict[int, ast.FunctionDef]:
    """Return the decorated functions of a file, by their first lines."""
    found: dict[int, ast.FunctionDef] = {}
    waiting: list[ast.stmt] = list(ast.parse(text, file).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            found[node.decorator_list[0].lineno] = node
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.If)):
            waiting.extend(node.body)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Finds literal sets of opcodes: they name ops where a row of the op table could answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

LEFT_OUT = ("frontends/", "formats/", "tools/")
"""Packages whose tables translate opcodes of others, name by name."""


def opcode_sets(text: str, opcodes: Set[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (line, opcodes) of each set, tuple, list or `case a | b` of two opcodes or more.

    A dict by opcode is no such set: it is a registry, with a rule for each of them.
    """
    for node in ast.walk(ast.parse(text)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            parts = node.elts
        elif isinstance(node, ast.MatchOr):
            parts = [one.value for one in node.patterns if isinstance(one, ast.MatchValue)]
        names = [one.value for one in parts if isinstance(one, ast.Constant)]
        if len(names) >= 2 and len(names) == len(parts) and opcodes.issuperset(names):
            yield node.lineno, tuple(names)

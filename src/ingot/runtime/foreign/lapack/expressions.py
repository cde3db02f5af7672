# SPDX-License-Identifier: Apache-2.0
"""Sizes in the table of LAPACK routines, as emitted code: `max(1,m)`, `2*n`, `tau.last`.

They are in Python's syntax, parsed by `ast`; the caller gives the values of names. Values that are
known when the code is emitted fold to a number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.support.diagnostics import InternalError

Names = Callable[[str], Index]


def emit_size(f: FunctionBuilder, text: str, names: Names) -> Index:
    """Emit the value of an expression; `names` gives that of `m` or `tau.last`."""
    return _emit(f, _parsed(text), names)


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _emit(f: FunctionBuilder, node: ast.expr, names: Names) -> Index:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Name() | ast.Attribute():
            return names(ast.unparse(node))
        case ast.BinOp(left=left, op=operation, right=right):
            operands = _emit(f, left, names), _emit(f, right, names)
            rows: dict[type[ast.operator], Callable[[Index, Index], Index]]
            rows = {ast.Add: f.iadd, ast.Sub: f.isub, ast.Mult: f.imul}
            emit = rows[type(operation)]
            return emit(*operands)
        case ast.Call(func=ast.Name(id=function), args=[left, right]):
            operands = _emit(f, left, names), _emit(f, right, names)
            return f.imax(*operands) if function == "max" else f.imin(*operands)
        case _:
            raise InternalError(f"not a size: {ast.unparse(node)}")

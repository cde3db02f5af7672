# SPDX-License-Identifier: Apache-2.0
"""Floats computed from named sizes: a `SymFloat` of PyTorch as a run-time number.

`x * (x.shape[0] ** 0.5)` multiplies by a number that each call computes. It is an `f64[]` of the
program, and is promoted like a Python float.

Invariant: the value is the one that Python computes from the sizes; integers are `sizes.Size`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import sympy as _sympy  # pyright: ignore[reportMissingTypeStubs]
from torch.utils._sympy import functions as torch_functions

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.fx.sizes import size_of
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F64
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record

_SYMPY: Any = _sympy  # it has no types
_FUNCTIONS: Any = torch_functions


@record
class RunTimeNumber:
    """A float that is known when the program runs.

    Attributes:
        value: `f64[]`.
    """

    value: Instruction


def _fold(opcode: str) -> Callable[..., Instruction]:
    def made(b: ArrayBuilder, *parts: Instruction) -> Instruction:
        return reduce(lambda left, right: b.emit(opcode, left, right), parts)

    return made


def _one(opcode: str) -> Callable[..., Instruction]:
    def made(b: ArrayBuilder, x: Instruction) -> Instruction:
        return b.emit(opcode, x)

    return made


def _same(b: ArrayBuilder, x: Instruction) -> Instruction:
    del b
    return x


_MAKERS: dict[Any, Callable[..., Instruction]] = {
    _SYMPY.Add: _fold("add"),
    _SYMPY.Mul: _fold("multiply"),
    _SYMPY.Pow: _fold("power"),
    _FUNCTIONS.FloatPow: _fold("power"),
    _FUNCTIONS.PowByNatural: _fold("power"),
    _FUNCTIONS.FloatTrueDiv: _fold("divide"),
    _FUNCTIONS.IntTrueDiv: _fold("divide"),
    _FUNCTIONS.Max: _fold("maximum"),
    _FUNCTIONS.Min: _fold("minimum"),
    _FUNCTIONS.ToFloat: _same,
    _FUNCTIONS.Identity: _same,
    _SYMPY.Abs: _one("abs"),
    **{
        getattr(_FUNCTIONS, f"OpaqueUnaryFn_{name}"): _one(opcode)
        for name, opcode in (
            ("sqrt", "sqrt"), ("exp", "exponential"), ("log", "log"), ("sin", "sine"),
            ("cos", "cosine"), ("tan", "tan"), ("tanh", "tanh"), ("sinh", "sinh"),
            ("cosh", "cosh"), ("asin", "asin"), ("acos", "acos"),
        )
    },
}  # fmt: skip


def run_time_number(b: ArrayBuilder, value: Any) -> RunTimeNumber:
    """Return a `SymFloat` as a number of the program.

    Raises:
        UnsupportedError: INGOT0371, it uses functions other than Python's arithmetic.
    """
    expression = value.node.expr
    made: dict[Any, Instruction] = {}
    for part in _SYMPY.postorder_traversal(expression):
        if part not in made:
            made[part] = _made(b, part, made)
    return RunTimeNumber(made[expression])


def symbols_in(value: Any) -> list[str]:
    """Return the named sizes in a `SymFloat`, in a fixed order."""
    return sorted(str(symbol) for symbol in value.node.expr.free_symbols)


def _made(b: ArrayBuilder, part: Any, made: dict[Any, Instruction]) -> Instruction:
    if part.is_Number:
        return b.scalar(float(part), F64)
    if part.is_Symbol:
        return b.scalar(Dim.symbol(str(part)), F64)
    maker = None if part.is_integer else _MAKERS.get(part.func)
    if maker is not None:
        return maker(b, *(made[item] for item in part.args))
    if part.is_integer:
        return b.scalar(size_of(part), F64)
    raise UnsupportedError(
        f"the number {part} is not made of arithmetic on sizes",
        code="INGOT0371",
        hint="mark the dimension as static, or compute the number with tensors",
    )

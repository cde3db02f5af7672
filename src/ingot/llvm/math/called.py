# SPDX-License-Identifier: Apache-2.0
"""Math functions as subroutines that take and return vectors in registers.

A function that is much longer than a call is compiled once for each vector type, as library code,
and not into every kernel: kernels import it (`ModuleBuilder.imports`), other modules define it
once. `llvm.math` lists these functions; its formulas emit their bodies.

A call passes each value in as many registers as the C ABI returns; wider values are split. Modules
without a known register width (and GPU code, where calls are expensive) get the formula inline.

Invariant: a call returns the same bits as the inline formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from ingot.llvm.builder import ALIGNED_STACK, FunctionBuilder, ModuleBuilder, Subroutine
from ingot.llvm.types import Type, struct, vector
from ingot.llvm.values import FunctionRef, Value

RETURNED_REGISTERS = 4
"""Vector registers that x86-64 and AArch64 functions return values in, or more."""

Emit = Callable[..., Sequence[Value]]
"""Emits a function's results: builder, operands, `fma`."""


def has_calls(f: FunctionBuilder) -> bool:
    """Whether functions of this module may be called: its registers' width is known."""
    return f.module.vector_bits > 0


def call(
    f: FunctionBuilder, code: Callable[[Type], Subroutine], args: Sequence[Value]
) -> tuple[Value, ...]:
    """Call a function on values of one type; `code` gives its subroutine on values of a type."""
    type = args[0].type
    results = len(code(type).return_type.fields)
    most = f.module.vector_bits * RETURNED_REGISTERS // (results * type.element.bits)
    found: list[Value] = []
    start = 0
    for lanes in _calls(type.lanes, most):
        reference = f.owner.subroutine(code(vector(type.element, lanes)))
        found.append(f.call(reference, [f.slice_lanes(arg, start, lanes) for arg in args]))
        start += lanes
    return tuple(
        f.concat_lanes([f.extract_value(part, number) for part in found])
        for number in range(results)
    )


def _calls(lanes: int, most: int) -> Iterator[int]:
    """Return the lanes of each call: powers of two, which registers take whole, `most` at most."""
    while lanes:
        step = min(most, 1 << lanes.bit_length() - 1)
        yield step
        lanes -= step


@cache
def subroutine(
    name: str, emit: Emit, operands: tuple[Type, ...], fma: bool, results: int = 1
) -> Subroutine:
    """Return the subroutine of a function: operands and `results` results of one type."""
    type = operands[0]
    symbol = f"ingot.math.{name}.f{type.element.bits}x{type.lanes}{'' if fma else '.no_fma'}"
    returned = struct(*[type] * results)

    def body(module: ModuleBuilder, linkage: str) -> FunctionRef:
        params = [(f"x{number}", type) for number, _ in enumerate(operands)]
        attributes = f"nounwind {ALIGNED_STACK}"
        f = module.function(symbol, returned, params, linkage=linkage, attrs=attributes)
        fields = f.undef(returned)
        for number, value in enumerate(emit(f, *f.params, fma=fma)):
            fields = f.insert_value(fields, value, number)
        f.ret(fields)
        return f.reference

    return Subroutine(symbol, returned, operands, body)

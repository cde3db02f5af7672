# SPDX-License-Identifier: Apache-2.0
"""From HLO to expressions: the way in. Every elemental rule in one table.

A rule says what the value of an opcode is at a point (`lowering`); having a rule, or being
elementwise, is what it takes to be computed inside a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.hlo.opset.structural import ConstantAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering, Rule
from ingot.kernel.elemental.shaping_rules import INDEXING, SHAPING, mapped
from ingot.kernel.expr import Expr
from ingot.support.diagnostics import UnsupportedError
from ingot.support.graphs import needs_first

RULES: Mapping[str, Rule] = {**SHAPING, **INDEXING}


def elemental_lowering(fused: Computation, extents: dict[str, int | Dim]) -> ElementalLowering:
    """Return a lowering of a fused computation whose parameters are buffers 0, 1, 2 ….

    Args:
        fused: the computation.
        extents: extents of the axes that points will use.
    """
    buffers = {parameter: number for number, parameter in enumerate(fused.parameters)}
    return ElementalLowering(RULES, mapped, buffers, extents)


def combiner_exprs(
    computation_root: Instruction, arguments: dict[Instruction, Expr]
) -> tuple[Expr, ...]:
    """Return the results of a scalar computation as expressions over `arguments`."""
    memo = dict(arguments)
    roots = computation_root.operands if computation_root.opcode == "tuple" else (computation_root,)
    for item in needs_first(roots, lambda one: one.operands if _is_computed(one) else (), memo):
        memo[item] = _combined(item, memo)
    return tuple(memo[root] for root in roots)


def _is_computed(instruction: Instruction) -> bool:
    return instruction.has(Trait.ELEMENTWISE) or instruction.opcode == "bitcast-convert"


def _combined(instruction: Instruction, memo: dict[Instruction, Expr]) -> Expr:
    """Return an instruction of a scalar computation as an expression over its operands'."""
    if instruction.opcode == "constant":
        given = instruction.as_(ConstantAttributes)
        return ex.constant(given.literal.scalar)
    if not _is_computed(instruction):
        raise _not_elementwise(instruction)
    args = tuple(memo[operand] for operand in instruction.operands)
    return ex.make(instruction.opcode, instruction.shape.dtype, args, instruction.attributes)


def _not_elementwise(instruction: Instruction) -> UnsupportedError:
    while instruction.opcode == "get-tuple-element":
        (instruction,) = instruction.operands
    return UnsupportedError(
        f"{instruction.opcode} in a computation that is applied to elements",
        code="INGOT0343",
        instruction=repr(instruction),
        location=instruction.metadata.location,
        hint="write a while over the elements that does this in its body, or compute it by a map "
        "before",
    )

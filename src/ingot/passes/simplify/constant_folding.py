# SPDX-License-Identifier: Apache-2.0
"""Constant folding: instructions whose operands are constants become constants.

The evaluator computes them, within a budget: folding may neither make compilation slow nor the
program large. Elementwise ops on broadcast scalars are folded as scalars, as `algsimp` moves the
broadcast behind them. Sources that cost no memory (iota, broadcast) are folded only when small.

Source: xla/hlo/transforms/simplifiers/hlo_constant_folding.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.passes.fusion.recompute import LITERALS
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.evaluator import Value

_NEVER = ops_with(
    Trait.TUPLE,
    Trait.BARRIER,
    RegionKind.BRANCH,
    RegionKind.CALL,
    RegionKind.FUSION,
    RegionKind.FOREIGN,
    also=("copy",),
)
"""Ops that are never folded: structure, control flow, and ops that must stay."""


@record
class ConstantFolding(Pass):
    """Evaluates instructions that depend on constants alone.

    Attributes:
        element_limit: greatest size of a folded result.
        work_limit: greatest number of elementary operations to fold an instruction.
        virtual_limit: greatest size of a broadcast or iota that counts as constant operand.
    """

    name = "constant-folding"
    element_limit: int = 1 << 16
    work_limit: int = 1 << 20
    virtual_limit: int = 256

    def run(self, module: Module, context: PassContext) -> bool:
        """Fold in every reachable computation, operands first."""
        folded = [
            self._fold(instruction)
            for computation in module.post_order()
            for instruction in computation.post_order()
            if instruction.parent is not None and instruction.operands
        ]
        return any(folded)

    def _fold(self, instruction: Instruction) -> bool:
        if not self._is_foldable(instruction):
            return False
        operands = [self._value(operand) for operand in instruction.operands]
        if any(operand is None for operand in operands):
            return False
        result = _evaluated(instruction, [o for o in operands if o is not None])
        build = Builder(instruction.computation, instruction.metadata)
        made = build.constant(Literal.of(result, instruction.shape.dtype))
        instruction.computation.replace(instruction, made)
        return True

    def _is_foldable(self, instruction: Instruction) -> bool:
        """Whether the instruction may be folded at all: cheap checks first."""
        opcode = instruction.opcode
        if opcode in LITERALS or opcode in _NEVER or not _has_constant(instruction):
            return False
        if instruction.has(Trait.SIDE_EFFECT):
            return False
        shape = instruction.shape
        if not shape.is_array or instruction.control_predecessors:
            return False
        if not instruction.is_static:
            return False
        if _count(shape) > self.element_limit or _work(instruction) > self.work_limit:
            return False
        from ingot.evaluator import evaluated_opcodes

        return opcode in evaluated_opcodes()

    def _value(self, operand: Instruction) -> Value | None:
        """Return the value of an operand that is a constant or a small array made of one."""
        broadcasts: list[Instruction] = []
        while operand.opcode == "broadcast" and self._is_small(operand):
            broadcasts.append(operand)
            (operand,) = operand.operands
        if operand.opcode == "constant":
            value = _literal_value(operand.attributes.literal)
        elif operand.opcode == "iota" and self._is_small(operand):
            value = _evaluated(operand, ())
        else:
            return None
        for broadcast in reversed(broadcasts):
            value = _evaluated(broadcast, (value,))
        return value

    def _is_small(self, operand: Instruction) -> bool:
        shape = operand.shape
        return shape.is_array and shape.is_static and _count(shape) <= self.virtual_limit


def _evaluated(instruction: Instruction, operands: Sequence[Value]) -> Any:
    """Return the value of an instruction; the evaluator is imported where there is one to fold."""
    from ingot.evaluator import evaluate_instruction

    return evaluate_instruction(instruction, operands)


def _has_constant(instruction: Instruction) -> bool:
    """Whether operands are constants, at least one of them with memory of its own."""
    sources = [operand.opcode for operand in instruction.operands]
    return "constant" in sources and all(source in LITERALS for source in sources)


def _work(instruction: Instruction) -> int:
    """Return about how many elementary operations an instruction takes."""
    sizes = [_count(o.shape) for o in instruction.operands if o.shape.is_array]
    result = _count(instruction.shape)
    if instruction.has(Trait.CONTRACTION):
        return result * max(sizes)
    # A called computation may be evaluated element by element: a thousand times slower.
    factor = 1 << 8 if instruction.called_computations else 1
    return factor * max([result, *sizes])


def _count(shape: Shape) -> int:
    """Return the number of elements of a static array."""
    return prod(shape.static_dims)


def _literal_value(literal: Literal) -> Any:
    if literal.array is not None:
        return literal.array
    return tuple(_literal_value(element) for element in literal.elements)

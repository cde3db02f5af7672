# SPDX-License-Identifier: Apache-2.0
"""Elemental lowering: the value of an instruction at a point, from those of its operands.

`ElementalLowering.value(instruction, point)` walks from a result to the parameters: elementwise ops
become expression nodes, shaping ops change the index, parameters become loads. Nothing is stored on
the way, so all of it is fused. What an opcode does is its rule in `shaping_rules`, or
the indexing map in its row of the op table; `rules` puts the tables together.
Out-of-bounds points (pad, concatenate) carry a mask down to the loads.

Invariant: the same instruction at the same point is the same expression.

Example: `add(broadcast(x), y)` at (i, j) is `add(load x[j], load y[i*n+j])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.kernel import expr as ex
from ingot.kernel.elemental.points import Point
from ingot.kernel.expr import Expr
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import fresh, mutable

_ELEMENTWISE = ops_with(Trait.ELEMENTWISE)


@mutable
class ElementalLowering:
    """Lowers values of one fused computation.

    Attributes:
        rules: the lowering of each opcode that is not elementwise.
        mapped: what an op does that has no rule, but an indexing map.
        buffers: buffer number per parameter instruction.
        extents: extents of axes, for index simplification.
        reductions: filled by the loop builder: `reduce` instruction -> its values.
        accumulators: filled by the contraction builder: `dot` -> the finished sum.
    """

    rules: Mapping[str, Rule]
    mapped: Rule
    buffers: Mapping[Instruction, int]
    extents: dict[str, int | Dim]
    reductions: dict[Instruction, tuple[Expr, ...]] = fresh(factory=dict)
    accumulators: dict[Instruction, Expr] = fresh(factory=dict)
    _memo: dict[tuple[Instruction, Point], Expr] = fresh(factory=dict)

    def value(self, instruction: Instruction, point: Point) -> Expr:
        """Return the value of `instruction` at `point`.

        Raises:
            UnsupportedError: the opcode cannot be part of a kernel (a fusion bug).
        """
        memo = self._memo
        # Chains of elementwise ops may be longer than Python's recursion goes deep.
        stack = [(instruction, point)]
        while stack:
            key = stack[-1]
            if key in memo:
                stack.pop()
                continue
            sources = self._sources(*key)
            if sources is None:
                memo[key] = self._lowered(*key)
                continue
            pending = [source for source in sources if source not in memo]
            if pending:
                stack.extend(pending)
                continue
            item, args = key[0], tuple([memo[source] for source in sources])
            memo[key] = ex.make(item.opcode, item.shape.dtype, args, item.attributes)
        return memo[instruction, point]

    def operand(self, user: Instruction, number: int, point: Point) -> Expr:
        """Return operand `number` of `user` at `point` (scalars at their only point)."""
        operand = user.operands[number]
        return self.value(operand, point if operand.shape.dims else point.at(()))

    def _sources(
        self, instruction: Instruction, point: Point
    ) -> list[tuple[Instruction, Point]] | None:
        """Return what an elementwise op reads, and where; None where it takes a rule."""
        if instruction.opcode not in _ELEMENTWISE:
            return None
        if instruction in self.accumulators or instruction in self.reductions:
            return None
        scalar = point if not point.index else point.at(())
        return [(o, point if o.shape.dims else scalar) for o in instruction.operands]

    def _lowered(self, instruction: Instruction, point: Point) -> Expr:
        if instruction in self.accumulators:
            return self.accumulators[instruction]
        if instruction in self.reductions:
            return self.reductions[instruction][0]
        rule = self.rules.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, point)
        if instruction.definition.indexing is not None:
            return self.mapped(self, instruction, point)
        raise UnsupportedError(
            f"{instruction.opcode} cannot be part of a loop kernel",
            code="INGOT0340",
            instruction=repr(instruction),
        )


Rule = Callable[[ElementalLowering, Instruction, Point], Expr]

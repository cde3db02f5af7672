"""The puller: the value of an instruction at a place, pulled from its operands.

`Puller.value(instruction, place)` walks down from a result: elementwise ops become expression
nodes, shaping ops change the index, parameters become loads. Nothing is stored on the way, so
whatever is pulled is fused. What an opcode does is its rule in `shaping_rules` or `indexing_rules`;
`pull` puts the tables together. Out-of-bounds places (pad, concatenate) carry a mask down to the
loads.

Invariant: the same instruction at the same place is the same expression.

Example: `add(broadcast(x), y)` at (i, j) is `add(load x[j], load y[i*n+j])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.place import Place
from ingot.support.diagnostics import UnsupportedError


@dataclass(slots=True)
class Puller:
    """Pulls values of one fused computation.

    Attributes:
        rules: what each opcode does that is not elementwise.
        buffers: buffer number per parameter instruction.
        extents: extents of axes, for index simplification.
        reductions: filled by the loop builder: `reduce` instruction -> its values.
        accumulators: filled by the contraction builder: `dot` -> the finished sum.
    """

    rules: Mapping[str, Rule]
    buffers: Mapping[Instruction, int]
    extents: dict[str, int | Dim]
    reductions: dict[Instruction, tuple[Expr, ...]] = field(
        default_factory=dict[Instruction, "tuple[Expr, ...]"]
    )
    accumulators: dict[Instruction, Expr] = field(default_factory=dict[Instruction, Expr])
    _memo: dict[tuple[Instruction, Place], Expr] = field(
        default_factory=dict[tuple[Instruction, Place], Expr]
    )

    def value(self, instruction: Instruction, place: Place) -> Expr:
        """Return the value of `instruction` at `place`.

        Raises:
            UnsupportedError: the opcode cannot be part of a kernel (a fusion bug).
        """
        # Chains of elementwise ops may be longer than Python's recursion goes deep.
        stack = [(instruction, place)]
        while stack:
            item, where = stack[-1]
            pending = [key for key in self._plain_operands(item, where) if key not in self._memo]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            if (item, where) not in self._memo:
                self._memo[item, where] = self._pull(item, where)
        return self._memo[instruction, place]

    def operand(self, user: Instruction, number: int, place: Place) -> Expr:
        """Return operand `number` of `user` at `place` (scalars at their only place)."""
        return self.value(*self._operand_key(user, number, place))

    def _operand_key(
        self, user: Instruction, number: int, place: Place
    ) -> tuple[Instruction, Place]:
        operand = user.operands[number]
        return operand, (place.at(()) if not operand.shape.dims else place)

    def _plain_operands(
        self, instruction: Instruction, place: Place
    ) -> list[tuple[Instruction, Place]]:
        """Return what an elementwise op reads, and where; rules pull their operands themselves."""
        known = (instruction, place) in self._memo or instruction in self.accumulators
        if known or instruction.opcode in self.rules or not instruction.has(Trait.ELEMENTWISE):
            return []
        numbers = range(len(instruction.operands))
        return [self._operand_key(instruction, number, place) for number in numbers]

    def _pull(self, instruction: Instruction, place: Place) -> Expr:
        if instruction in self.accumulators:
            return self.accumulators[instruction]
        if instruction in self.reductions:
            return self.reductions[instruction][0]
        rule = self.rules.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, place)
        if instruction.has(Trait.ELEMENTWISE):
            args = tuple(
                self.operand(instruction, number, place)
                for number in range(len(instruction.operands))
            )
            return ex.make(
                instruction.opcode, instruction.shape.dtype, args, instruction.attributes
            )
        raise UnsupportedError(
            f"{instruction.opcode} cannot be part of a loop kernel",
            code="INGOT0340",
            instruction=repr(instruction),
        )


Rule = Callable[[Puller, Instruction, Place], Expr]

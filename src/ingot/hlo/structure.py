"""The structure of a computation: what tells apart two that are written differently.

Names and metadata do not count; order of instructions, shapes with layouts, attributes and bits of
constants do. Called computations count by identity: `cse` has made equal reducers one. Cheaper than
`rewrite.fingerprint`, and only of use inside one compilation.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> def negated(name: str) -> Computation:
    ...     b = Builder(name)
    ...     return b.build(b.negate(b.parameter(0, "f32[2]")))
    >>> structure(negated("f")) == structure(negated("g"))
    True
"""

from __future__ import annotations

from collections.abc import Hashable

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction


def structure(computation: Computation) -> Hashable:
    """Return a value that computations written alike share."""
    numbers: dict[Instruction, int] = {}
    rows: list[Hashable] = []
    for instruction in computation.post_order():
        numbers[instruction] = len(numbers)
        operands = tuple([numbers[operand] for operand in instruction.operands])
        rows.append((instruction.opcode, instruction.shape, instruction.attributes, operands))
    return numbers[computation.root], tuple(rows)

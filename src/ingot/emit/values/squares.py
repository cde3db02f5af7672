# SPDX-License-Identifier: Apache-2.0
"""Squares of elements transposed in registers, as library code.

This part of a transposing kernel is much code and the same in all of them: sixteen loads,
sixty-four shuffles and sixteen stores, whatever is computed from the result. Called by
`cpu.emit.loop.tile`; packing uses the shuffles too.

Invariant: equal names are equal code.
"""

from __future__ import annotations

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class SquareTranspose:
    """`void square(from, step, to)`: rows `step` bytes apart become columns, dense in `to`.

    Attributes:
        element: type of an element in memory.
        side: rows and columns, a power of two.
    """

    element: Type
    side: int

    @property
    def name(self) -> str:
        """A name that says all of it: equal names, equal code."""
        return f"square_{self.element.suffix}_{self.side}"

    @property
    def params(self) -> list[tuple[str, Type]]:
        """The function's parameters."""
        return [("source", lt.PTR), ("step", lt.I64), ("target", lt.PTR)]

    def call(self, f: FunctionBuilder, source: Value, step: Value, target: Value) -> None:
        """Turn the square at `source` around."""
        reference = f.owner.declare(self.name, lt.VOID, [type_ for _, type_ in self.params])
        f.call(reference, [source, step, target])

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define the function in a module."""
        f = module.function(self.name, lt.VOID, self.params, linkage=linkage, attrs="nounwind")
        source, step, target = f.params
        wide, rows = vector(self.element, self.side), list[Value]()
        for _ in range(self.side):
            rows.append(f.load(wide, source))
            source = f.gep(source, step)
        for number, column in enumerate(transpose(f, rows)):
            f.store(column, f.gep(target, number * wide.bytes), wide.bytes)
        f.ret()
        return f.reference


def transpose(f: FunctionBuilder, rows: list[Value]) -> list[Value]:
    """Return the columns of a square of vectors: log2(n) rounds of n two-input shuffles.

    Vectors of more lanes are as many squares side by side.
    """
    side, lanes = len(rows), rows[0].type.lanes
    rows = list(rows)
    distance = 1
    while distance < side:
        # Swap the off-diagonal quarters of every 2 distance x 2 distance block.
        first = [p if p & distance == 0 else lanes + p - distance for p in range(lanes)]
        second = [p + distance if p & distance == 0 else lanes + p for p in range(lanes)]
        for number in range(side):
            if number & distance == 0:
                a, b = rows[number], rows[number + distance]
                rows[number] = f.shuffle(a, b, first)
                rows[number + distance] = f.shuffle(a, b, second)
        distance *= 2
    return rows

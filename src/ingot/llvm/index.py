# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic that folds: operands are `Value | int`, and two ints give an int.

A mixin over the builder. Kernels with static sizes and with symbolic sizes use the same emitter
code; known values are Python ints and cost no instruction.
Invariant: indices are i64 (or the type of the `Value` operand) and quotients are taken of
non-negative numbers, so that Python's `//` and LLVM's `udiv` agree.
"""

from __future__ import annotations

from ingot.llvm.memory import Memory
from ingot.llvm.types import I1, I64, Type
from ingot.llvm.values import Value, const

Index = Value | int
Condition = Value | bool


def _known(a: Index) -> Index:
    """Return the number of an i64 constant (the index of a loop of one iteration)."""
    if isinstance(a, Value) and a.type is I64 and a.text.isdigit():
        return int(a.text)
    return a


class IndexArithmetic(Memory):
    """Folding integer helpers; a mixin of `FunctionBuilder`."""

    __slots__ = ()

    def as_value(self, a: Index, type: Type = I64) -> Value:
        """Return an index as an operand of `type` (ignored for a `Value`)."""
        return const(type, a) if isinstance(a, int) else a

    def as_condition(self, a: Condition) -> Value:
        """Return a condition as an i1 operand."""
        return const(I1, a) if isinstance(a, bool) else a

    def _pair(self, a: Index, b: Index) -> tuple[Value, Value]:
        if isinstance(a, int):
            right = self.as_value(b)
            return const(right.type, a), right
        return a, self.as_value(b, a.type)

    def _emit_index(self, opcode: str, a: Index, b: Index) -> Value:
        left, right = self._pair(a, b)
        return self.binary(opcode, left, right)

    def iadd(self, a: Index, b: Index) -> Index:
        """Return a + b."""
        a, b = _known(a), _known(b)
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if isinstance(a, int):
                return a + b
            if b == 0:
                return a
        return self._emit_index("add", a, b)

    def isub(self, a: Index, b: Index) -> Index:
        """Return a - b."""
        if isinstance(b, int):
            if isinstance(a, int):
                return a - b
            if b == 0:
                return a
        return self._emit_index("sub", a, b)

    def imul(self, a: Index, b: Index) -> Index:
        """Return a * b."""
        a, b = _known(a), _known(b)
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if isinstance(a, int):
                return a * b
            if b == 1:
                return a
            if b == 0:
                return 0
        return self._emit_index("mul", a, b)

    def idiv(self, a: Index, b: Index) -> Index:
        """Return a // b; a >= 0, b > 0."""
        if isinstance(b, int):
            if isinstance(a, int):
                return a // b
            if b == 1:
                return a
        return self._emit_index("udiv", a, b)

    def irem(self, a: Index, b: Index) -> Index:
        """Return a % b; a >= 0, b > 0."""
        if isinstance(b, int):
            if isinstance(a, int):
                return a % b
            if b == 1:
                return 0
        return self._emit_index("urem", a, b)

    def iceildiv(self, a: Index, b: Index) -> Index:
        """Return a / b rounded up; a >= 0, b > 0."""
        return self.idiv(self.iadd(a, self.isub(b, 1)), b)

    def imin(self, a: Index, b: Index) -> Index:
        """Return the smaller, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        left, right = self._pair(a, b)
        return self.select(self.icmp("slt", left, right), left, right)

    def imax(self, a: Index, b: Index) -> Index:
        """Return the larger, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        left, right = self._pair(a, b)
        return self.select(self.icmp("sgt", left, right), left, right)

    def _compare_index(self, predicate: str, a: Index, b: Index) -> Value:
        left, right = self._pair(a, b)
        return self.icmp(predicate, left, right)

    def ilt(self, a: Index, b: Index) -> Condition:
        """Return a < b, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return a < b
        return self._compare_index("slt", a, b)

    def ile(self, a: Index, b: Index) -> Condition:
        """Return a <= b, signed."""
        if isinstance(a, int) and isinstance(b, int):
            return a <= b
        return self._compare_index("sle", a, b)

    def igt(self, a: Index, b: Index) -> Condition:
        """Return a > b, signed."""
        return self.ilt(b, a)

    def ige(self, a: Index, b: Index) -> Condition:
        """Return a >= b, signed."""
        return self.ile(b, a)

    def ieq(self, a: Index, b: Index) -> Condition:
        """Return a == b."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return self._compare_index("eq", a, b)

    def ine(self, a: Index, b: Index) -> Condition:
        """Return a != b."""
        if isinstance(a, int) and isinstance(b, int):
            return a != b
        return self._compare_index("ne", a, b)

    def land(self, a: Condition, b: Condition) -> Condition:
        """Return a and b, both already computed."""
        if isinstance(a, bool):
            a, b = b, a
        if isinstance(b, bool):
            return a if b else False
        return self.and_(self.as_condition(a), b)

    def iselect(self, condition: Condition, a: Index, b: Index) -> Index:
        """Return a if `condition` holds, else b."""
        if isinstance(condition, bool):
            return a if condition else b
        left, right = self._pair(a, b)
        return self.select(condition, left, right)

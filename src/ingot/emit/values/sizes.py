# SPDX-License-Identifier: Apache-2.0
"""Emission of sizes on the host: every size has a value, whatever the named sizes are.

Kernels compute indices, which are not negative where they are used and are divided by what is not
0. The host program computes sizes before anybody knows that they make sense: those of a branch that
does not run too. So division rounds down, and a divisor below 1 counts as 1, as in
`hlo.dim.evaluate`. `CheckedSizes` also says whether 64 bits held all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.emit.values.indices import IndexEmitter, IndexValue
from ingot.hlo.dim import Atom, Dim, never_negative
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value


class SizeEmitter(IndexEmitter):
    """Emits sizes into one function, as scalars.

    Attributes:
        asked: the sizes that were emitted.
    """

    def __init__(self, f: FunctionBuilder, sizes: Mapping[str, IndexValue]) -> None:
        """Emit into `f`; `sizes` are the named sizes."""
        super().__init__(f, sizes)
        self.asked: dict[Dim, None] = {}

    def index(self, value: int | Dim, values: tuple[Value, ...] = ()) -> IndexValue:
        """Emit a size as i64."""
        if isinstance(value, Dim):
            self.asked[value] = None
        return super().index(value, values)

    def _atom(self, atom: Atom, values: tuple[Value, ...]) -> IndexValue:
        if not atom.function:
            return self._name(atom.text, values)
        left, right = super().index(atom.left), super().index(atom.right)
        if atom.function in ("max", "min") or never_negative(atom.left):
            return self._function(atom.function, left, right)
        divisor = self.f.as_value(self._divisor(right))
        return self._rounded_down(atom.function, self.f.as_value(left), divisor)

    def _rounded_down(self, name: str, a: Value, b: Value) -> Value:
        """Return a // b or a % b for an `a` that may be negative."""
        f = self.f
        rest = f.srem(a, b)
        is_below = f.icmp("slt", rest, f.const(lt.I64, 0))
        if name == "mod":
            return f.select(is_below, f.add(rest, b), rest)
        return f.sub(f.sdiv(a, b), f.zext(is_below, lt.I64))


class CheckedSizes(SizeEmitter):
    """Emits sizes, and whether they are right.

    Attributes:
        overflow: i1, whether a sum or product since `begin` does not fit into 64 bits.
    """

    def begin(self) -> None:
        """Forget what overflowed before."""
        self.overflow = self.f.as_condition(False)

    def _add(self, a: IndexValue, b: IndexValue) -> IndexValue:
        return b if a == 0 else a if b == 0 else self._exact("sadd", a, b)

    def _multiply(self, a: IndexValue, b: IndexValue) -> IndexValue:
        return b if a == 1 else a if b == 1 else self._exact("smul", a, b)

    def _exact(self, name: str, a: IndexValue, b: IndexValue) -> Value:
        """Return a sum or product, and keep in mind whether it overflows."""
        f, pair = self.f, lt.struct(lt.I64, lt.I1)
        found = f.intrinsic(f"llvm.{name}.with.overflow", pair, [f.as_value(a), f.as_value(b)])
        self.overflow = f.or_(self.overflow, f.extract_value(found, 1))
        return f.extract_value(found, 0)

# SPDX-License-Identifier: Apache-2.0
"""`Real`: f64 arrays with Python's operators, so that a formula reads as one.

The special functions are computed in f64 whatever the type of their operands, and rounded once.

Invariant: operands of one formula have the same dimensions.

Example: `y = (x * x + 1).log().where(x > 0, 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.instruction import Instruction
from ingot.support.records import record


@record
class Real:
    """An f64 (or pred) array of a computation."""

    b: ArrayBuilder
    x: Instruction

    def of(self, value: Real | float) -> Instruction:
        """Return a value of this array's shape."""
        return value.x if isinstance(value, Real) else self.b.like(value, self.x.shape)

    def filled(self, value: float) -> Real:
        """Return a number in every element."""
        return Real(self.b, self.b.like(value, self.x.shape))

    def _two(self, opcode: str, left: Real | float, right: Real | float) -> Real:
        return Real(self.b, self.b.emit(opcode, self.of(left), self.of(right)))

    def _one(self, opcode: str) -> Real:
        return Real(self.b, self.b.emit(opcode, self.x))

    def __add__(self, other: Real | float) -> Real:
        return self._two("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Real | float) -> Real:
        return self._two("subtract", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._two("subtract", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._two("multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return self._two("divide", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._two("divide", other, self)

    def __pow__(self, other: Real | float) -> Real:
        return self._two("power", self, other)

    def __neg__(self) -> Real:
        return self._one("negate")

    def __and__(self, other: Real) -> Real:
        return self._two("and", self, other)

    def __or__(self, other: Real) -> Real:
        return self._two("or", self, other)

    def __invert__(self) -> Real:
        return self._one("not")

    def _compared(self, direction: str, other: Real | float) -> Real:
        made = self.b.compare(self.x, self.of(other), direction=direction)
        return Real(self.b, made)

    def __lt__(self, other: Real | float) -> Real:
        return self._compared("LT", other)

    def __le__(self, other: Real | float) -> Real:
        return self._compared("LE", other)

    def __gt__(self, other: Real | float) -> Real:
        return self._compared("GT", other)

    def __ge__(self, other: Real | float) -> Real:
        return self._compared("GE", other)

    def equals(self, other: Real | float) -> Real:
        """Whether each element is equal."""
        return self._compared("EQ", other)

    def is_nan(self) -> Real:
        """Whether each element is NaN."""
        return self._compared("NE", self)

    def abs(self) -> Real:
        """|x|."""
        return self._one("abs")

    def exp(self) -> Real:
        """The exponential."""
        return self._one("exponential")

    def log(self) -> Real:
        """The natural logarithm."""
        return self._one("log")

    def log1p(self) -> Real:
        """The logarithm of 1 + x."""
        return self._one("log-plus-one")

    def sqrt(self) -> Real:
        """The square root."""
        return self._one("sqrt")

    def floor(self) -> Real:
        """The greatest whole number that is not above."""
        return self._one("floor")

    def sin(self) -> Real:
        """The sine."""
        return self._one("sine")

    def cos(self) -> Real:
        """The cosine."""
        return self._one("cosine")

    def acos(self) -> Real:
        """The inverse cosine."""
        return self._one("acos")

    def where(self, condition: Real, otherwise: Real | float) -> Real:
        """Return this array where the condition holds, the other one elsewhere."""
        return Real(self.b, self.b.select(condition.x, self.x, self.of(otherwise)))

    def through(self, function: Callable[[ArrayBuilder, Instruction], Instruction]) -> Real:
        """Return what a function of builder and array makes."""
        return Real(self.b, function(self.b, self.x))

    def polynomial(self, factors: Sequence[float]) -> Real:
        """Return the polynomial with these factors, highest power first."""
        total = self.filled(factors[0])
        for factor in factors[1:]:
            total = total * self + factor
        return total

    def chebyshev(self, factors: Sequence[float]) -> Real:
        """Return the sum of factors times Chebyshev polynomials of half this number.

        The highest comes first, and the last counts half. Summed as Clenshaw does.
        """
        first, second, third = (self.filled(0) for _ in range(3))
        for factor in factors:
            second, third = first, second
            first = self * second - third + factor
        return (first - third) * 0.5


_STEPS_OF_A_TRIP = 4
"""`igamma` of 20,000 f32 took 2.9 ms with 1, 2.2 with 2, 1.7 with 4 and 8 (AVX-512, 2026-11-28)."""


def iterate(
    state: Sequence[Real], step: Callable[[list[Real]], tuple[Real, list[Real]]], open_: Real
) -> list[Real]:
    """Repeat `step` while some element is open; closed elements stay as they are.

    `step` returns which elements go on, and the new state. A trip of the loop is several steps, so
    that the state is not written after each.
    """
    b = open_.b

    def goes_on(inner: ArrayBuilder, values: list[Instruction]) -> Instruction:
        return inner.reduced("or", values[0], range(values[0].shape.rank))

    def body(inner: ArrayBuilder, values: list[Instruction]) -> list[Instruction]:
        flag, *state = (Real(inner, value) for value in values)
        for _ in range(_STEPS_OF_A_TRIP):
            more, new = step(state)
            state = [after.where(flag, before) for before, after in zip(state, new, strict=True)]
            flag = flag & more
        return [flag.x, *(item.x for item in state)]

    made = b.loop([open_.x, *(item.x for item in state)], goes_on, body)
    return [Real(b, value) for value in made[1:]]

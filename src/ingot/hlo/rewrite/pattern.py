# SPDX-License-Identifier: Apache-2.0
"""Patterns: the expression that a rule matches, written as an expression.

    m.add(x, const(0))                      either order, as `add` is commutative
    m.reshape(m.reshape(x, name="inner"))   binds the inner instruction too
    m.compare(x, x, direction="EQ")         the same instruction twice, an attribute's value
    m.concatenate(..., where=has_empty)     any operands, a condition on the instruction
    one_of(("floor", "ceil"), x)            a set of opcodes
    one_of(MATH, ..., among=("broadcast",)) any operands, one of which is a broadcast
    m.multiply(m.exponential(x, once=True), y)   the exponential has no other user

A pattern is compiled to closures once. Commutative nodes become variants of the pattern, one per
order of operands, so that matching never backtracks.

Invariant: matching never changes the graph. A name bound twice must be the same instruction both
times.

Source followed: xla/hlo/ir/pattern_matcher.h for the conditions on instructions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import product
from types import EllipsisType
from typing import Any, Protocol, cast

import numpy as np

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, find
from ingot.support.records import record, replace

Bindings = dict[str, Instruction]
Condition = Callable[[Instruction], bool]
Match = Callable[[Instruction, Bindings], bool]

# Constants larger than this are not searched for being a splat on every match; the rule
# `splat_constant` turns them into broadcasts of a scalar, which are free to look through.
_SPLAT_SEARCH = 64


class Pattern(ABC):
    """A pattern for an instruction."""

    @abstractmethod
    def variants(self) -> list[Pattern]:
        """Return the patterns without commutative choices whose union this one is."""

    @abstractmethod
    def compile(self) -> Match:
        """Return the closure that matches this variant and binds its names."""

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """Every name that a match binds."""

    @property
    def wanted(self) -> frozenset[str] | None:
        """The opcodes that a match may have; None: any."""
        return None


@record
class Capture(Pattern):
    """Any instruction, bound to `name`."""

    name: str
    where: Condition | None = None

    def variants(self) -> list[Pattern]:
        """Return this pattern."""
        return [self]

    def compile(self) -> Match:
        """Return the closure that binds."""
        where, name = self.where, self.name

        def match(instruction: Instruction, bindings: Bindings) -> bool:
            if where is not None and not where(instruction):
                return False
            return bindings.setdefault(name, instruction) is instruction

        return match

    @property
    def names(self) -> frozenset[str]:
        """The one name."""
        return frozenset((self.name,))


@record
class Splat(Pattern):
    """A constant all of whose elements are `value` (any value if None), also through broadcasts.

    Zero matches both signs of zero; with `signed`, only the sign that `value` has.
    """

    value: float | bool | None
    name: str = ""
    signed: bool = False
    where: Callable[[Any], bool] | None = None

    def variants(self) -> list[Pattern]:
        """Return this pattern."""
        return [self]

    def compile(self) -> Match:
        """Return the closure that looks at the scalar value."""
        value, name, where = self.value, self.name, self.where
        minus = is_minus(self.value) if self.signed else None

        def match(instruction: Instruction, bindings: Bindings) -> bool:
            if instruction.opcode not in _CONSTANT_LIKE:
                return False
            found = splat_of(instruction)
            if found is None or (value is not None and found != value):
                return False
            if minus is not None and is_minus(found) != minus:
                return False
            if where is not None and not where(found):
                return False
            return not name or bindings.setdefault(name, instruction) is instruction

        return match

    @property
    def names(self) -> frozenset[str]:
        """The name, if it has one."""
        return frozenset((self.name,)) if self.name else frozenset()

    @property
    def wanted(self) -> frozenset[str] | None:
        """A constant, or an op through which constants are found."""
        return _CONSTANT_LIKE


@record
class Op(Pattern):
    """An instruction of one of `opcodes` whose operands and attributes match.

    Attributes:
        opcodes: the opcodes accepted.
        operands: one pattern per operand, or None for any operands.
        attributes: (name, value) pairs that must be equal.
        name: what to bind the instruction to, or empty.
        where: condition on the instruction.
        once: whether it must have exactly one use, so that it dies with its user.
        ordered: whether the order of operands counts even if the op is commutative.
        among: opcodes of which at least one operand must be, or none.
    """

    opcodes: tuple[str, ...]
    operands: tuple[Pattern, ...] | None
    attributes: tuple[tuple[str, Any], ...] = ()
    name: str = ""
    where: Condition | None = None
    once: bool = False
    ordered: bool = False
    among: frozenset[str] = frozenset()

    def variants(self) -> list[Pattern]:
        """Return one pattern per choice of operand orders."""
        if self.operands is None:
            return [self]
        orders = [self.operands]
        commutative = all(find(opcode).has(Trait.COMMUTATIVE) for opcode in self.opcodes)
        if commutative and not self.ordered and self.operands[0] != self.operands[1]:
            orders.append(self.operands[::-1])
        return [
            replace(self, operands=chosen, ordered=True)
            for order in orders
            for chosen in product(*(operand.variants() for operand in order))
        ]

    def compile(self) -> Match:
        """Return the closure that matches this instruction, then its operands."""
        opcodes, attributes, once = frozenset(self.opcodes), self.attributes, self.once
        fits = None if self.operands is None else _fitting([sub.compile() for sub in self.operands])
        where, name, among = self.where, self.name, self.among

        def match(instruction: Instruction, bindings: Bindings) -> bool:
            if instruction.opcode not in opcodes:
                return False
            if among and among.isdisjoint([one.opcode for one in instruction.operands]):
                return False
            for field, value in attributes:
                if getattr(instruction.attributes, field) != value:
                    return False
            if once and (instruction.use_count != 1 or instruction.is_root):
                return False
            if fits is not None and not fits(instruction.operands, bindings):
                return False
            if where is not None and not where(instruction):
                return False
            return not name or bindings.setdefault(name, instruction) is instruction

        return match

    @property
    def names(self) -> frozenset[str]:
        """The name of this instruction and of everything below it."""
        below = [operand.names for operand in self.operands or ()]
        return frozenset((self.name,) if self.name else ()).union(*below)

    @property
    def wanted(self) -> frozenset[str] | None:
        """The opcodes accepted."""
        return frozenset(self.opcodes)

    def may_match(self, operands: tuple[str, ...]) -> bool:
        """Whether an instruction with operands of these opcodes may match this variant."""
        if self.among and self.among.isdisjoint(operands):
            return False
        if self.operands is None:
            return True
        return len(operands) == len(self.operands) and all(
            sub.wanted is None or opcode in sub.wanted
            for sub, opcode in zip(self.operands, operands, strict=True)
        )


def _fitting(inner: list[Match]) -> Callable[[tuple[Instruction, ...], Bindings], bool]:
    """Return a matcher of all operands, without a loop for one or two of them."""
    if len(inner) == 1:
        (only,) = inner
        return lambda operands, bindings: len(operands) == 1 and only(operands[0], bindings)
    if len(inner) == 2:
        left, right = inner
        return lambda operands, bindings: (
            len(operands) == 2 and left(operands[0], bindings) and right(operands[1], bindings)
        )

    def fits(operands: tuple[Instruction, ...], bindings: Bindings) -> bool:
        pairs = zip(inner, operands, strict=False)
        return len(inner) == len(operands) and all(match(item, bindings) for match, item in pairs)

    return fits


_SPREAD = frozenset({"broadcast", "reshape"})
_CONSTANT_LIKE = _SPREAD | {"constant"}


def splat_of(instruction: Instruction) -> Any:
    """Return the NumPy scalar that all elements of a constant or its broadcast equal, or None."""
    while instruction.opcode in _SPREAD:
        instruction = instruction.operands[0]
    if instruction.opcode != "constant":
        return None
    literal = instruction.attributes.literal
    array = literal.array
    if array is None or array.size == 0 or array.size > _SPLAT_SEARCH:
        return None
    return array.reshape(-1)[0] if array.size == 1 or literal.is_splat else None


class MakeOp(Protocol):
    """The signature of `m.opcode`."""

    def __call__(
        self,
        *operands: Pattern | EllipsisType,
        name: str = "",
        where: Condition | None = None,
        once: bool = False,
        ordered: bool = False,
        **attributes: Any,
    ) -> Op:
        """Return the pattern of an instruction of this opcode."""
        ...


def is_minus(value: Any) -> bool | None:
    """Whether the sign bit of a number is set; None for complex numbers."""
    if isinstance(value, complex | np.complexfloating):
        return None
    return math.copysign(1.0, float(value)) < 0


class _Maker:
    """`m.opcode(...)`: patterns, as the builder makes instructions."""

    def __getattr__(self, method: str) -> MakeOp:
        opcode = method.rstrip("_").replace("_", "-")
        return cast("MakeOp", partial(one_of, (opcode,)))


m = _Maker()


def one_of(
    opcodes: tuple[str, ...],
    *operands: Pattern | EllipsisType,
    name: str = "",
    where: Condition | None = None,
    once: bool = False,
    ordered: bool = False,
    among: tuple[str, ...] = (),
    **attributes: Any,
) -> Op:
    """Return the pattern of an instruction of one of `opcodes`; `...` stands for any operands."""
    for opcode in (*opcodes, *among):
        find(opcode)  # a misspelt opcode is an error now, not a rule that never fires
    given = tuple(operand for operand in operands if not isinstance(operand, EllipsisType))
    inner = given if len(given) == len(operands) else None
    kept = tuple(attributes.items())
    return Op(opcodes, inner, kept, name, where, once, ordered, frozenset(among))


def capture(name: str, where: Condition | None = None) -> Capture:
    """Return the pattern that binds any instruction to `name`."""
    return Capture(name, where)


def const(
    value: float | bool | None = None,
    *,
    name: str = "",
    signed: bool = False,
    where: Callable[[Any], bool] | None = None,
) -> Splat:
    """Return the pattern of a constant with all elements `value`; `where` looks at the scalar."""
    return Splat(value, name, signed, where)

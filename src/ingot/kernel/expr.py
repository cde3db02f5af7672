# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions: what one point of an iteration space computes. Hash-consed.

An `Expr` is an op on expressions. Most ops are HLO's elementwise opcodes under their own names;
the rest are leaves that tie an expression to its kernel:

* `constant`: payload is the NumPy scalar.
* `index`: payload is an index (`int | Dim`); the value is s64.
* `load`: payload is `Access`; arguments are the mask (if there is one), then the values of `$0`,
  `$1` ….
* `reduced`: payload is (reduction number, output number): the value of a finished reduction.
* `argument`: payload is the number of a combiner's parameter.
* `accumulator`: the finished sum of a contraction.

An index is a `Dim` over axis names (`@…`), size names, and `$k`, the k-th run-time value argument.

Invariant: equal expressions are one object, so `is` compares and memo tables are exact.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> x = constant(np.float32(2))
    >>> make("add", F32, (x, x)) is make("add", F32, (x, x))
    True
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED, S64, DType, from_numpy
from ingot.hlo.interfaces import ops_with
from ingot.hlo.opdef import NO_ATTRIBUTES, Trait, find
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.support.graphs import needs_first
from ingot.support.interning import InternTable
from ingot.support.records import record

LEAVES = frozenset({"constant", "index", "load", "reduced", "argument", "accumulator"})
"""Ops that are not HLO opcodes."""

MOVING_OPS = frozenset({"select", "load", "compare", "index", "constant", "and", "or"})
"""Ops of a kernel that moves elements and computes nothing."""

EXACT = ops_with(Trait.EXACT)
"""Ops after which nothing is rounded."""

CALL_NODES = 20
"""Nodes that take about as long as one function."""


@record
class Access:
    """Where a load or store goes: element `index` of `buffer`; `masked`: argument 0 is the mask."""

    buffer: int
    index: int | Dim
    masked: bool = False


class Expr:
    """One node; see the module for the ops. `axes` are the axis names that the value depends on.

    `reductions` are the numbers of the reductions that it depends on; `height` is about how many
    simple ops must be done one after the other for it.
    """

    __slots__ = (
        "__weakref__", "args", "axes", "dtype", "height", "op", "payload", "reductions",
    )  # fmt: skip

    op: str
    dtype: DType
    args: tuple[Expr, ...]
    payload: Any
    axes: frozenset[str]
    reductions: frozenset[int]
    height: int

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.args))
        payload = "" if self.payload in (None, NO_ATTRIBUTES) else f"[{self.payload}]"
        return f"{self.op}{payload}({inner})" if inner else f"{self.op}{payload}"


_NO_NUMBERS: frozenset[int] = frozenset()
_exprs = InternTable[tuple[object, ...], Expr]()
_reference = _exprs.reference


def make(op: str, dtype: DType, args: tuple[Expr, ...] = (), payload: Any = None) -> Expr:
    """Return the expression of `op` on `args`; equal ones are one object while it is in use.

    `payload` is what the op needs beside them: attributes, an `Access`, a number (see the module).
    """
    key = (op, dtype.name, args, payload)
    known = _reference(key)
    found = None if known is None else known()
    if found is None:
        found = Expr()
        found.op, found.dtype, found.args, found.payload = op, dtype, args, payload
        axes = _axes(op, payload)
        found.axes = axes.union(*[arg.axes for arg in args]) if args else axes
        own = frozenset((payload[0],)) if op == "reduced" else _NO_NUMBERS
        found.reductions = own.union(*[arg.reductions for arg in args]) if args else own
        found.height = latency(op) + max([arg.height for arg in args], default=0)
        found = _exprs.keep(key, found)
    return found


@cache
def is_expensive_op(op: str) -> bool:
    """Whether an op is one of HLO's expensive ones."""
    return op not in LEAVES and find(op).has(Trait.EXPENSIVE)


def is_expensive(node: Expr) -> bool:
    """Whether an expression is one of HLO's expensive ops."""
    return is_expensive_op(node.op)


@cache
def latency(op: str) -> int:
    """Return the cost of an op, in simple ops."""
    return CALL_NODES if is_expensive_op(op) else 1


def _axes(op: str, payload: Any) -> frozenset[str]:
    """Axis names of a leaf; a reduced value varies with what its reduction was computed for."""
    if op == "index":
        return axis_names(payload)
    if op == "load":
        return axis_names(payload.index)
    if op == "reduced":
        return payload[2]
    if op == "accumulator":
        return frozenset(payload)
    return frozenset()


def varies(symbol: str) -> bool:
    """Whether a symbol of an index is an axis or a run-time value, not a size."""
    return symbol[0] in "@$"


def axis_names(value: int | Dim) -> frozenset[str]:
    """Return the axis names inside an index."""
    return frozenset(name for name in symbols_of((value,)) if name.startswith("@"))


@record
class Scalar:
    """A constant's payload: compared by bits, so NaN is itself and -0.0 is not 0.0."""

    bits: bytes
    storage: str

    @property
    def value(self) -> Any:
        """The NumPy scalar."""
        return np.frombuffer(self.bits, np.dtype(_storage(self.storage)))[0]


def _storage(name: str) -> Any:
    from ingot.hlo.dtype import dtype

    return dtype(name).numpy


def constant(value: Any) -> Expr:
    """Return a constant from a NumPy scalar."""
    array = np.asarray(value)
    element = from_numpy(array.dtype)
    return make("constant", element, (), Scalar(array.tobytes(), element.name))


def scalar(value: Any, dtype: DType) -> Expr:
    """Return a number as a constant of a type."""
    return constant(dtype.numpy.type(value))


def index(value: int | Dim, values: tuple[Expr, ...] = ()) -> Expr:
    """Return an index as an s64 value."""
    return make("index", S64, values, value)


def load(
    buffer: int,
    where: int | Dim,
    dtype: DType,
    values: tuple[Expr, ...] = (),
    mask: Expr | None = None,
) -> Expr:
    """Return the load of an element; where `mask` is false it is not read and the value is 0."""
    args = (mask, *values) if mask is not None else values
    return make("load", dtype, args, Access(buffer, where, mask is not None))


def unmasked(item: Expr, args: tuple[Expr, ...]) -> Expr:
    """Return a masked load without its mask; `args` are its arguments, the mask first."""
    access = item.payload
    return load(access.buffer, access.index, item.dtype, args[1:])


def is_position(value: Expr) -> bool:
    """Whether a value is the position on one axis, as any type."""
    index = value.args[0] if value.op == "convert" else value
    return index.op == "index" and isinstance(index.payload, Dim) and index.payload.is_symbol


def reduced(number: int, output: int, dtype: DType, axes: frozenset[str]) -> Expr:
    """Return output `output` of reduction `number`, which varies with `axes`."""
    return make("reduced", dtype, (), (number, output, axes))


def argument(number: int, dtype: DType) -> Expr:
    """Return parameter `number` of a combiner."""
    return make("argument", dtype, (), number)


def compute(op: str, *args: Expr, dtype: DType | None = None) -> Expr:
    """Return an elementwise op without attributes; `dtype`: its type, if not that of the last."""
    return make(op, dtype or args[-1].dtype, args, NO_ATTRIBUTES)


def converted(value: Expr, to: DType) -> Expr:
    """Return `value` as element type `to`."""
    return value if value.dtype is to else compute("convert", value, dtype=to)


def as_bits(value: Expr, to: DType) -> Expr:
    """Return the bits of `value` as those of type `to`, which has as many."""
    return value if value.dtype is to else compute("bitcast-convert", value, dtype=to)


def compare(direction: str, left: Expr, right: Expr) -> Expr:
    """Return the mask `left direction right` of expressions of one type; `direction` as in HLO."""
    return make("compare", PRED, (left, right), CompareAttributes(direction))


def select(mask: Expr, on_true: Expr, on_false: Expr) -> Expr:
    """Return on_true where mask holds, else on_false."""
    return compute("select", mask, on_true, on_false)


def conjunction(left: Expr | None, right: Expr | None) -> Expr | None:
    """Return the mask that holds where both hold (None: everywhere)."""
    if left is None or right is None:
        return left if right is None else right
    return left if left is right else compute("and", left, right)


def conjuncts(mask: Expr) -> Iterator[Expr]:
    """Yield masks that all hold where `mask` does."""
    waiting = [mask]
    while waiting:
        item = waiting.pop()
        if item.op == "and" and item.dtype is PRED:
            waiting += reversed(item.args)
        else:
            yield item


@lru_cache(maxsize=64)
def walk(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return every distinct expression under `roots`, arguments first.

    What builds, schedules and emits a kernel walks the same expressions again and again.
    """
    return tuple(needs_first(roots, attrgetter("args")))


def loads_of(exprs: tuple[Expr, ...]) -> list[Expr]:
    """Return the distinct loads under `exprs`, arguments first."""
    return [node for node in walk(exprs) if node.op == "load"]

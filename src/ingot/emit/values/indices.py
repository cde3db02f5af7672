# SPDX-License-Identifier: Apache-2.0
"""Emission of indices: scalars, and vectors along the vector axis.

The state of a `ValueEmitter` at its position: values of axes and sizes by name, the vector axis,
and what has been emitted, per scope. Positions are i64.

Invariant: a value found is one whose scope is still open, so it is always defined where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim, product, symbols_of
from ingot.kernel.analysis.lane_offsets import first_lane, holds_anywhere, lane_offsets
from ingot.kernel.index_math import dim_of
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record

IndexValue = int | Value


@record
class Lanes:
    """The vector axis: its name, how many lanes, and the mask of valid ones in a tail.

    `aligned` is known to divide the position of lane 0; `start` is that position where it is known.
    """

    axis: str
    count: int
    mask: Value | None = None
    aligned: int = 1
    start: int | None = None

    def placed(self, where: int | Dim) -> tuple[int | Dim, int]:
        """Return an index along the axis counted from a position that a number divides, and that.

        From a known position on it is counted from there: every number divides 0.
        """
        if self.start is None:
            return where, self.aligned
        return dim.substitute(where, {self.axis: Dim.symbol(self.axis) + self.start}), 0


class IndexEmitter:
    """Emits indices into one function; see the module."""

    def __init__(self, f: FunctionBuilder, sizes: Mapping[str, IndexValue]) -> None:
        """Emit into `f`; `sizes` are the symbolic sizes."""
        self.f = f
        self.names: dict[str, IndexValue] = dict(sizes)
        self.lanes: Lanes | None = None
        self._values: dict[object, Value] = {}
        self._scopes: list[list[tuple[object, Value | None]]] = []

    # ---- scopes

    def open_scope(self) -> None:
        """Start a block whose values are forgotten at `close_scope`."""
        self._scopes.append([])

    def close_scope(self) -> None:
        """Forget the values emitted since `open_scope`."""
        for key, before in reversed(self._scopes.pop()):
            if before is None:
                del self._values[key]
            else:
                self._values[key] = before

    def find(self, key: object) -> Value | None:
        """Return the value bound to `key` in an open scope."""
        return self._values.get(key)

    def bind(self, key: object, value: Value) -> None:
        """Make `value` the emitted value of an expression (reductions, accumulators)."""
        if self._scopes:
            self._scopes[-1].append((key, self._values.get(key)))
        self._values[key] = value

    # ---- indices

    def index(self, value: int | Dim, values: tuple[Value, ...] = ()) -> IndexValue:
        """Emit an index as i64: scalar, or a vector when it varies along the vector axis."""
        if isinstance(value, int):
            return value
        if self.lanes is not None and self.lanes.count > 1 and not value.is_symbol:
            known = self._known_lanes(value, values)
            if known is not None:
                return known
        return self._sum(value, values, self._atom)

    def shared_terms(
        self, where: int | Dim, values: tuple[Value, ...]
    ) -> tuple[int | Dim, int | Dim]:
        """Return the part of an index that all lanes have, and the rest."""
        assert self.lanes is not None, "a scalar has no lanes"
        if isinstance(where, int):
            return where, 0
        own: int | Dim = 0
        for key, factor in where.terms:
            term = product([factor, *map(dim_of, key)])
            names = symbols_of((term,))
            is_own = self.lanes.axis in names or any(
                name[0] == "$" and values[int(name[1:])].type.lanes > 1 for name in names
            )
            own = own + term if is_own else own
        return where - own, own

    def narrow_index(self, value: int | Dim, values: tuple[Value, ...]) -> IndexValue:
        """Emit an index as i32, of values as i32: right if it fits, and all that is divided.

        Sums and products wrap, so whatever else is on the way may be larger.
        """
        return value if isinstance(value, int) else self._sum(value, values, self._narrow_atom)

    def _sum(
        self,
        value: Dim,
        values: tuple[Value, ...],
        read: Callable[[Atom, tuple[Value, ...]], IndexValue],
    ) -> IndexValue:
        """Return the sum of an index's terms, whose atoms `read` emits."""
        total: IndexValue = 0
        for key, factor in value.terms:
            term: IndexValue = factor
            for atom in key:
                term = self._multiply(term, read(atom, values))
            total = self._add(total, term)
        return total

    def _narrow_atom(self, atom: Atom, values: tuple[Value, ...]) -> IndexValue:
        if atom.function:
            sides = [self.narrow_index(side, values) for side in (atom.left, atom.right)]
            return self._function(atom.function, *sides)
        if atom.text[0] == "$":
            return values[int(atom.text[1:])]
        found = self.names[atom.text]
        narrow = found if isinstance(found, int) else self.f.trunc(found, lt.I32)
        is_lane = self.lanes is not None and self.lanes.axis == atom.text and self.lanes.count > 1
        return self._lane_indices(narrow, lt.I32) if is_lane else narrow

    def _known_lanes(self, value: Dim, values: tuple[Value, ...]) -> Value | None:
        """Return an index whose lanes lie at known offsets from lane 0's."""
        lanes, f = self.lanes, self.f
        assert lanes is not None
        if lanes.axis not in symbols_of((value,)):
            return None
        offsets = self.lane_offsets(value, values, None)
        if offsets is None:
            return None
        placed, aligned = lanes.placed(value)
        first = first_lane(placed, lanes.axis, aligned)
        type_ = vector(lt.I64, lanes.count)
        if first is not None:
            return f.const(type_, [first + offset for offset in offsets])
        if not holds_anywhere(value, lanes.axis):
            # Where lane 0 is masked off it may be negative: each lane is divided by itself.
            return None
        start = f.splat(f.as_value(self.base_index(value, values)), lanes.count)
        return f.add(start, f.const(type_, list(offsets)))

    def _atom(self, atom: Atom, values: tuple[Value, ...]) -> IndexValue:
        if not atom.function:
            return self._name(atom.text, values)
        left, right = self.index(atom.left, values), self.index(atom.right, values)
        return self._function(atom.function, left, right)

    def _name(self, name: str, values: tuple[Value, ...]) -> IndexValue:
        if name[0] == "$":
            return values[int(name[1:])]
        found = self.names[name]
        if self.lanes is not None and self.lanes.axis == name and self.lanes.count > 1:
            return self._lane_indices(found)
        return found

    def _lane_indices(self, base: IndexValue, element: lt.Type = lt.I64) -> Value:
        assert self.lanes is not None
        at = base if isinstance(base, int) else base.text
        key = ("lane indices", self.lanes.axis, at, element)
        found = self.find(key)
        if found is None:
            f, count = self.f, self.lanes.count
            start = f.splat(f.as_value(base, element), count)
            found = f.add(start, f.const(vector(element, count), list(range(count))))
            self.bind(key, found)
        return found

    def _pair(self, a: IndexValue, b: IndexValue) -> tuple[Value, Value] | None:
        """Return both as vectors when one is a vector, else None."""
        types = [item.type for item in (a, b) if isinstance(item, Value)]
        lanes = max((type.lanes for type in types), default=1)
        if lanes == 1:
            return None
        element = types[0].element
        return self.spread_index(a, lanes, element), self.spread_index(b, lanes, element)

    def spread_index(self, item: IndexValue, lanes: int, element: lt.Type = lt.I64) -> Value:
        """Return an index with `lanes` lanes; a number becomes one of type `element`."""
        if isinstance(item, int):
            return self.f.const(vector(element, lanes), item)
        return item if item.type.lanes == lanes else self.f.splat(item, lanes)

    def _add(self, a: IndexValue, b: IndexValue) -> IndexValue:
        if isinstance(a, int) and a == 0:
            return b
        if isinstance(b, int) and b == 0:
            return a
        pair = self._pair(a, b)
        return self.f.iadd(a, b) if pair is None else self.f.add(*pair)

    def _multiply(self, a: IndexValue, b: IndexValue) -> IndexValue:
        if isinstance(a, int) and a == 1:
            return b
        pair = self._pair(a, b)
        return self.f.imul(a, b) if pair is None else self.f.mul(*pair)

    def _function(self, name: str, a: IndexValue, b: IndexValue) -> IndexValue:
        f = self.f
        if name in ("floordiv", "mod"):
            b = self._divisor(b)
        pair = self._pair(a, b)
        if pair is None:
            scalar = {"floordiv": f.idiv, "mod": f.irem, "max": f.imax, "min": f.imin}
            return scalar[name](a, b)
        x, y = pair
        if name in ("max", "min"):
            return f.intrinsic(f"llvm.s{name}", x.type, [x, y])
        # Indices are not negative where they are used; masked lanes may hold anything.
        return f.udiv(x, y) if name == "floordiv" else f.urem(x, y)

    def _divisor(self, size: IndexValue) -> IndexValue:
        """Return a size, or 1 for 0: then the quotient is not used, but the processor divides."""
        if isinstance(size, int):
            return max(size, 1)
        return self.f.intrinsic("llvm.smax", size.type, [size, self.f.const(size.type, 1)])

    def base_index(self, where: int | Dim, values: tuple[Value, ...]) -> IndexValue:
        """Return the index of lane 0."""
        lanes, self.lanes = self.lanes, None
        try:
            return self.index(where, values)
        finally:
            self.lanes = lanes

    def lane_offsets(
        self, where: int | Dim, values: tuple[Value, ...], mask: Value | None
    ) -> tuple[int, ...] | None:
        """Return the offset of each lane's element from lane 0's, None where it is unknown.

        Under a mask lane 0 may lie anywhere, where divisions mean nothing.
        """
        lanes = self.lanes
        assert lanes is not None, "a scalar has no lanes"
        used = [name for name in symbols_of((where,)) if name[0] == "$"]
        if any(values[int(name[1:])].type.lanes > 1 for name in used):
            return None
        if mask is not None and not holds_anywhere(where, lanes.axis):
            return None
        placed, aligned = lanes.placed(where)
        return lane_offsets(placed, lanes.axis, lanes.count, aligned)

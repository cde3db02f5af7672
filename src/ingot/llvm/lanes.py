# SPDX-License-Identifier: Apache-2.0
"""Lanes of the text IR builder: splat, extract, insert, shuffle, slices and concatenation.

A mixin over `FunctionWriter`. Every op works on vectors of any lane count, powers of two or not; a
vector of one lane is a scalar everywhere in this builder.
Invariant: extracted lanes are in range, and inserted values have the vector's element type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from ingot.llvm.types import I1, vector
from ingot.llvm.values import Value, known_lanes, of_lanes, undef
from ingot.llvm.writer import FunctionWriter
from ingot.support.diagnostics import InternalError


class Lanes(FunctionWriter):
    """Movement of lanes; a mixin of `FunctionBuilder`."""

    __slots__ = ()

    def splat(self, scalar: Value, lanes: int) -> Value:
        """Return a vector with `scalar` in every lane (the scalar itself for one lane)."""
        if lanes == 1:
            return scalar
        type = vector(scalar.type, lanes)
        if scalar.text[0] != "%":
            return Value(type, f"splat ({scalar.type.text} {scalar.text})")
        first = self.insert(undef(type), scalar, 0)
        unused, zeros = undef(type), f"<{lanes} x i32> zeroinitializer"
        held = f"{type.text} {first.text}, {type.text} {unused.text}"
        return self.define(type, f"shufflevector {held}, {zeros}")

    def extract(self, a: Value, lane: int | Value) -> Value:
        """Return one lane; of a scalar, lane 0 is the scalar."""
        index = self._lane(a, lane)
        if not a.type.is_vector:
            return a
        return self.define(a.type.element, f"extractelement {a.type.text} {a.text}, {index}")

    def insert(self, a: Value, scalar: Value, lane: int | Value) -> Value:
        """Return `a` with one lane replaced."""
        index = self._lane(a, lane)
        if scalar.type is not a.type.element:
            raise self.ill_typed("insertelement", a, scalar)
        if not a.type.is_vector:
            return scalar
        item = f"{scalar.type.text} {scalar.text}"
        return self.define(a.type, f"insertelement {a.type.text} {a.text}, {item}, {index}")

    def _lane(self, a: Value, lane: int | Value) -> str:
        """Return the operand that names a lane of `a`."""
        type = a.type
        if isinstance(lane, int):
            if not 0 <= lane < type.lanes or not type.lane_kind:
                raise InternalError(f"lane {lane} of {type.text} in '{self.name}'")
            return f"i64 {lane}"
        if lane.type.kind != "integer" or not type.is_vector:
            raise self.ill_typed("lane", a, lane)
        return f"{lane.type.text} {lane.text}"

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        """Return the lanes `mask` of a ++ b; -1 is a lane that is never used."""
        lanes = a.type.lanes
        if b.type is not a.type or not a.type.lane_kind:
            raise self.ill_typed("shufflevector", a, b)
        if len(mask) == 1 and mask[0] < 2 * lanes:
            return self.extract(a if mask[0] < lanes else b, mask[0] % lanes)
        sources = mask if isinstance(mask, range) else tuple(mask)
        known = None if a.text[0] == "%" else _constant_shuffle(a, b, sources)
        if known is not None:
            return known
        text = a.type.text
        if not a.type.is_vector:
            pair = self.insert(self.insert(undef(vector(a.type, 2)), a, 0), b, 1)
            return self.shuffle(pair, undef(pair.type), sources)
        held = f"{text} {a.text}, {text} {b.text}"
        type = vector(a.type.element, len(mask))
        made = self.define(type, f"shufflevector {held}, {_mask_text(sources, 2 * lanes)}")
        if type.scalar is I1 and self._off:
            off = (*self.lanes_off(a), *self.lanes_off(b))
            self._note_off(made, tuple([at >= 0 and off[at] for at in sources]))
        return made

    def lanes_off(self, mask: Value) -> tuple[bool, ...]:
        """Return which lanes of a mask are known to be false, of a constant or a computed one."""
        known = known_lanes(mask)
        if known is not None:
            return tuple([text == "false" for text in known])
        return self._off.get(mask.text) or (False,) * mask.type.lanes

    def _note_off(self, mask: Value, off: tuple[bool, ...]) -> None:
        """Remember which lanes of a computed mask are false."""
        if any(off):
            self._off[mask.text] = off

    def slice_lanes(self, a: Value, start: int, count: int) -> Value:
        """Return `count` consecutive lanes of `a`.

        Raises:
            InternalError: the vector does not have these lanes.
        """
        end = start + count
        if not 0 <= start < end <= a.type.lanes:
            raise InternalError(f"lanes {start} to {end} of {a.type.text} in '{self.name}'")
        if count == a.type.lanes:
            return a
        parts = self._joined.get(a.text)
        if parts is not None:
            ends = list(accumulate(part.type.lanes for part in parts))
            starts = [0, *ends[:-1]]
            if start in starts and end in ends:
                return self.concat_lanes(parts[starts.index(start) : ends.index(end) + 1])
            for part, first, last in zip(parts, starts, ends, strict=True):
                if first <= start and end <= last:
                    return self.slice_lanes(part, start - first, count)
        return self.shuffle(a, undef(a.type), range(start, end))

    def concat_lanes(self, parts: Sequence[Value]) -> Value:
        """Return the lanes of vectors or scalars of one element type, one after the other."""
        joined = list(parts)
        if not any(part.type.is_vector for part in joined):
            result = undef(vector(joined[0].type, len(joined)))
            for lane, part in enumerate(joined):
                result = self.insert(result, part, lane)
            return result
        held = joined
        while len(held) > 1:
            odd = held[len(held) & ~1 :]
            held = [*map(self._side_by_side, held[::2], held[1::2]), *odd]
        if len(joined) > 1 and held[0].text[0] == "%":
            self._joined.setdefault(held[0].text, joined)
        return held[0]

    def _side_by_side(self, a: Value, b: Value) -> Value:
        """Return the lanes of two vectors or scalars."""
        own, others = a.type.lanes, b.type.lanes
        most = max(own, others)
        sources = range(2 * most) if own == others else (*range(own), *range(most, most + others))
        return self.shuffle(self.widened(a, most), self.widened(b, most), sources)

    def widened(self, a: Value, lanes: int) -> Value:
        """Return a vector of `lanes` lanes, `a`'s first; the others are undefined."""
        own = a.type.lanes
        if own == lanes:
            return a
        if own == 1:
            return self.insert(undef(vector(a.type, lanes)), a, 0)
        return self.shuffle(a, undef(a.type), (*range(own), *[-1] * (lanes - own)))


@lru_cache(maxsize=4096)
def _mask_text(sources: Sequence[int], lanes: int) -> str:
    """Return the mask of a shuffle of `lanes`; cached, as most shuffles are alike."""
    if not -1 <= min(sources) <= max(sources) < lanes:
        raise InternalError(f"a shuffle of {lanes} lanes takes lanes {sources}")
    texts = ", ".join([f"i32 {item}" if item >= 0 else "i32 poison" for item in sources])
    return f"<{len(sources)} x i32> <{texts}>"


@lru_cache(maxsize=4096)
def _constant_shuffle(a: Value, b: Value, sources: Sequence[int]) -> Value | None:
    """Return the shuffle of constants, None if a lane is not known."""
    first, second = known_lanes(a), known_lanes(b)
    if first is None or (second is None and max(sources) >= len(first)):
        return None
    both = first + (second or ())
    return of_lanes(vector(a.type.element, len(sources)), [both[source] for source in sources])

# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of a kernel: one element, vectors, vectors to pick lanes from, gathers.

Where lanes lie is known for most accesses (`kernel.analysis.lane_offsets`): neighbours are one
vector or a few, elements near each other are picked out of whole vectors, and only distant or
unknown elements are gathered lane by lane.

Invariant: with a mask, no lane outside the mask touches memory; without one, nothing is read before
the first lane's element or after the last one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from ingot.emit.values.indices import IndexEmitter, IndexValue
from ingot.emit.values.types import memory_type
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel.analysis.lane_counts import LANE_BITS
from ingot.kernel.analysis.lane_offsets import Cover, cover, runs
from ingot.kernel.expr import axis_names
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value, known_lanes, undef
from ingot.support.records import record

SCALAR_LOAD_BITS = (32, 64)
"""Sizes of elements that are read one by one if distant; LLVM does so for other sizes anyway."""

MOST_RUNS = 4
"""Runs of lanes that are read or written piece by piece; more of them are gathered."""

MOST_COVER = 4
"""Vectors that are read whole to pick lanes from; more distant elements are gathered."""

WIDE_VECTORS, MOST_WIDE_COVER, GATHERED_BITS = 512, 8, 64
"""Likewise where one instruction picks lanes from any two vectors, of elements of fewer bits
than those that gathers read as fast."""

MOST_SHARED = 4
"""Lanes that have one element and a mask each; with more of them lanes are gathered."""


@record
class _Access:
    """An access to memory.

    Attributes:
        base: the buffer's address.
        where: the element, an index expression.
        values: the values that the expression has indices of.
        memory: the type of an element in memory.
        mask: whether to access it at all, for each lane or for all; the tail is not in it.
    """

    base: Value
    where: int | Dim
    values: tuple[Value, ...]
    memory: lt.Type
    mask: Value | None


class AccessEmitter(IndexEmitter):
    """Emits accesses to buffers into one function; see the module."""

    def __init__(
        self, f: FunctionBuilder, buffers: Mapping[int, Value], sizes: Mapping[str, IndexValue]
    ) -> None:
        """Emit into `f`; `buffers` are addresses by number, `sizes` the symbolic sizes.

        `rooms`, which may be set afterwards, has the bytes of the values and of the memory at
        addresses where only this function writes behind a value.
        """
        super().__init__(f, sizes)
        self.buffers = dict(buffers)
        self.large_buffers: frozenset[int] = frozenset()
        self.rooms: Mapping[Value, tuple[int, int]] = {}

    def spread(self, value: Value, lanes: int) -> Value:
        """Return a value with `lanes` lanes, splat if it is a scalar."""
        if value.type.lanes == lanes:
            return value
        key = ("splat", value.type, value.text, lanes)
        found = self.find(key)
        if found is None:
            found = self.f.splat(value, lanes)
            self.bind(key, found)
        return found

    def load_element(
        self,
        base: Value,
        where: int | Dim,
        element: DType,
        values: tuple[Value, ...],
        mask: Value | None,
    ) -> Value:
        """Load from element `where` of `base`: one load, a vector load, or a gather."""
        f, access = self.f, _Access(base, where, values, memory_type(element), mask)
        lanes = self._access_lanes(where, values, mask)
        if lanes == 1:
            return self._scalar_load(access.memory, self._pointer(access, mask), mask)
        combined = self._lane_mask(mask, lanes)
        offsets = self._offsets(access, lanes)
        if offsets is None:
            return self._gathered(access, lanes, combined)
        if offsets == (0,) * lanes and combined is None:
            pointer = f.gep(base, self.base_index(where, values), access.memory)
            return f.splat(f.load(access.memory, pointer), lanes)
        if runs(offsets, MOST_RUNS) is None:
            return self._load_scattered(access, offsets, combined)
        return self._load_runs(access, offsets, combined)

    def _load_scattered(
        self, access: _Access, offsets: tuple[int, ...], mask: Value | None
    ) -> Value:
        """Load lanes at known offsets: picked out of whole vectors if they are near each other."""
        f, memory = self.f, access.memory
        near = None if access.mask is not None else _within(offsets, mask)
        if near is not None:
            offsets, mask = near, None
        first = self._pointer(access, mask)
        whole = cover(offsets, self._most_cover(memory))
        if whole is None or (mask and whole.shared > MOST_SHARED):
            return self._gather(self._behind(first, offsets, memory, mask), memory, mask)
        picked = self._picked(self._readable(first, access), memory, whole, mask)
        if mask is None or whole.shared == 1:
            return picked
        # A lane that is off may have the element of one that is on.
        return f.select(mask, picked, f.zero(picked.type))

    def _load_runs(self, access: _Access, offsets: tuple[int, ...], mask: Value | None) -> Value:
        """Load lanes that lie in a few runs of neighbours."""
        f, lanes, count = self.f, len(offsets), runs(offsets, MOST_RUNS)
        assert count is not None, "the lanes lie in runs"
        if access.mask is None:
            mask = self._beside_padding(access, mask)
        pointer = self._readable(self._pointer(access, mask), access)
        parts: list[Value] = []
        for start, length in _pieces(lanes, count):
            part = None if mask is None else f.slice_lanes(mask, start, length)
            wide = vector(access.memory, length)
            parts.append(self._neighbours(pointer, offsets[start], wide, part))
        return f.concat_lanes(parts)

    def _neighbours(self, pointer: Value, start: int, wide: lt.Type, mask: Value | None) -> Value:
        """Load the elements from `start` elements behind `pointer` on; masked ones are zero."""
        f, memory = self.f, wide.element
        at = f.gep(pointer, start, memory, inbounds=mask is None)
        return f.masked_load(wide, at, mask, align=memory.alignment)

    def _offsets(self, access: _Access, lanes: int) -> tuple[int, ...] | None:
        """Return the offsets of `lanes` lanes, None where they are not known."""
        assert self.lanes is not None, "a scalar has no lanes"
        if lanes != self.lanes.count:
            return None
        return self.lane_offsets(access.where, access.values, access.mask)

    def _behind(
        self, first: Value, offsets: tuple[int, ...], memory: lt.Type, mask: Value | None
    ) -> Value:
        """Return the address of each lane's element, by its offset from the address `first`."""
        f = self.f
        fits = max(map(abs, offsets)) < 1 << 31
        numbers = f.const(vector(lt.I32 if fits else lt.I64, len(offsets)), list(offsets))
        return f.gep(first, numbers, memory, inbounds=mask is None)

    def _pointer(self, access: _Access, mask: Value | None) -> Value:
        """Return the address of lane 0; where a mask is false it may lie outside of the buffer."""
        index = self.base_index(access.where, access.values)
        return self.f.gep(access.base, index, access.memory, inbounds=mask is None)

    def _readable(self, pointer: Value, access: _Access) -> Value:
        """Return `pointer`, or the buffer's address if one mask for all lanes is false.

        A vector that reads nothing from a page that is not mapped takes hundreds of cycles.
        """
        if access.mask is None or access.mask.type.lanes > 1:
            return pointer
        return self.f.select(access.mask, pointer, access.base)

    def _one_by_one(self, base: Value, indices: Value, memory: lt.Type) -> Value:
        """Load each lane's element by itself."""
        f, lanes = self.f, indices.type.lanes
        room = f.alloca(lt.I64, lanes, LINE_BYTES)
        f.store(indices, room)
        wide = f.undef(vector(memory, lanes))
        for lane in range(lanes):
            index = f.load(lt.I64, f.gep(room, lane, lt.I64))
            wide = f.insert(wide, f.load(memory, f.gep(base, index, memory)), lane)
        return wide

    def _loads_lane_by_lane(self, base: Value, memory: lt.Type) -> bool:
        return memory.bits in SCALAR_LOAD_BITS and any(
            self.buffers[n] is base for n in self.large_buffers
        )

    def _picked(self, pointer: Value, memory: lt.Type, whole: Cover, mask: Value | None) -> Value:
        """Read whole vectors and pick the lanes' elements; what only masked lanes have is zero."""
        f, wide = self.f, vector(memory, whole.length)
        on = None if mask is None else known_lanes(mask)
        # Narrower elements are picked faster where those between them are known to be zero.
        is_wide = memory.bits >= LANE_BITS
        reach = None if on is None or not is_wide else whole.reach([text == "true" for text in on])
        parts: list[Value] = []
        for number, start in enumerate(whole.starts):
            held = None if mask is None else self._of_readers(mask, whole.readers(number))
            if reach is not None:
                inside = [at in reach for at in range(start, start + whole.length)]
                held = f.const(vector(lt.I1, whole.length), inside)
            parts.append(self._neighbours(pointer, start, wide, held))
        if len(parts) == 1:
            return f.shuffle(parts[0], undef(wide), [at for _, at in whole.sources])
        first = [at + part * whole.length if part < 2 else -1 for part, at in whole.sources]
        picked = f.shuffle(parts[0], parts[1], first)
        lanes = len(whole.sources)
        for number, loaded in enumerate(parts[2:], 2):
            sources = enumerate(whole.sources)
            order = [at + lanes if part == number else lane for lane, (part, at) in sources]
            picked = f.shuffle(picked, f.widened(loaded, lanes), order)
        return picked

    def _most_cover(self, memory: lt.Type) -> int:
        is_cheap_permute = self.f.module.vector_bits >= WIDE_VECTORS and memory.bits < GATHERED_BITS
        return MOST_WIDE_COVER if is_cheap_permute else MOST_COVER

    def _of_readers(self, mask: Value, rounds: Sequence[Sequence[int]]) -> Value:
        """Return the mask of a vector's elements: whether one of the lanes that have it is on."""
        f = self.f
        held = [f.shuffle(mask, f.zero(mask.type), readers) for readers in rounds]
        return reduce(f.or_, held)

    def _gathered(self, access: _Access, lanes: int, mask: Value | None) -> Value:
        """Load the element at each lane's index; what all lanes add to it is added once."""
        base, memory, values = access.base, access.memory, access.values
        is_single = mask is None and self._loads_lane_by_lane(base, memory)
        shared, own = self.shared_terms(access.where, values)
        if isinstance(shared, Dim):
            base = self.f.gep(base, self.index(shared, values), memory, inbounds=False)
        else:
            own = own + shared
        indices = self.spread_index(self.index(own, values), lanes)
        if is_single:
            return self._one_by_one(base, indices, memory)
        is_inside = mask is None and base is access.base
        return self._gather(self.f.gep(base, indices, memory, inbounds=is_inside), memory, mask)

    def _gather(self, pointers: Value, memory: lt.Type, mask: Value | None) -> Value:
        wide = vector(memory, pointers.type.lanes)
        if mask is None:
            return self.f.gather(wide, pointers)
        return self.f.gather(wide, pointers, mask, self.f.zero(wide))

    def _scalar_load(self, memory: lt.Type, pointer: Value, mask: Value | None) -> Value:
        f = self.f
        if mask is None:
            return f.load(memory, pointer)
        # A masked-off scalar reads a zero on the stack instead.
        zero = f.alloca(memory)
        f.store(f.zero(memory), zero)
        return f.load(memory, f.select(mask, pointer, zero))

    def _access_lanes(self, where: int | Dim, values: tuple[Value, ...], mask: Value | None) -> int:
        lanes = max((value.type.lanes for value in values), default=1)
        if mask is not None:
            lanes = max(lanes, mask.type.lanes)
        if self.lanes is not None and self.lanes.axis in axis_names(where):
            lanes = max(lanes, self.lanes.count)
        return lanes

    def _lane_mask(self, mask: Value | None, lanes: int) -> Value | None:
        """Return the mask of an access and the tail together."""
        tail = self.lanes.mask if self.lanes is not None and lanes == self.lanes.count else None
        if mask is None:
            return tail
        spread = self.spread(mask, lanes)
        return spread if tail is None else self.f.and_(spread, tail)

    def store_element(
        self,
        base: Value,
        where: int | Dim,
        value: Value,
        values: tuple[Value, ...],
        mask: Value | None,
    ) -> None:
        """Store lanes in the element type of memory at element `where` of `base`."""
        f, memory, lanes = self.f, value.type.element, value.type.lanes
        access = _Access(base, where, values, memory, mask)
        if lanes == 1:
            f.store(value, self._pointer(access, mask))
            return
        combined = self._lane_mask(mask, lanes)
        offsets = self._offsets(access, lanes)
        if offsets is None:
            indices = self.spread_index(self.index(where, values), lanes)
            pointers = f.gep(base, indices, memory, inbounds=combined is None)
            f.scatter(value, pointers, combined)
            return
        if runs(offsets[::-1], 1) is not None:
            # Backwards: in the order in which they lie in memory.
            offsets = offsets[::-1]
            value, combined = self._reversed(value), combined and self._reversed(combined)
        if mask is None:
            combined = self._beside_padding(access, combined)
        count = runs(offsets, MOST_RUNS)
        pointer = self._pointer(access, combined)
        if count is None:
            f.scatter(value, self._behind(pointer, offsets, memory, combined), combined)
            return
        for start, length in _pieces(lanes, count):
            at = f.gep(pointer, offsets[start], memory, inbounds=combined is None)
            part = f.slice_lanes(value, start, length)
            if combined is None:
                f.store(part, at)
            else:
                held = f.slice_lanes(combined, start, length)
                f.masked_store(part, at, held, align=memory.alignment)

    def _beside_padding(self, access: _Access, tail: Value | None) -> Value | None:
        """Return the tail mask of an access, None if it is to all of a value and then its padding.

        LLVM keeps memory in registers only if no access to it is masked.
        """
        on = known_lanes(tail) if tail is not None and access.base in self.rooms else None
        if on is None or self.base_index(access.where, access.values) != 0:
            return tail
        (size, room), cell = self.rooms[access.base], access.memory.bytes
        count = on.count("true")
        is_whole = count * cell == size and "false" not in on[:count]
        return None if is_whole and len(on) * cell <= room else tail

    def _reversed(self, value: Value) -> Value:
        """Return lanes in the opposite order."""
        return self.f.shuffle(value, value, range(value.type.lanes - 1, -1, -1))


def _within(offsets: tuple[int, ...], tail: Value | None) -> tuple[int, ...] | None:
    """Return the offsets of lanes of which only the first few, a known number, are on.

    The others have the last one's element, so that all may be read; None where that is not known.
    """
    known = None if tail is None else known_lanes(tail)
    if known is None:
        return None
    count = known.count("true")
    if count == 0 or "false" in known[:count]:
        return None
    return offsets[:count] + offsets[count - 1 : count] * (len(offsets) - count)


def _pieces(lanes: int, count: int) -> list[tuple[int, int]]:
    """Return start and length of each of `count` equal runs of lanes."""
    length = lanes // count
    return [(start, length) for start in range(0, lanes, length)]

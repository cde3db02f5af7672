# SPDX-License-Identifier: Apache-2.0
"""What a StridedSlice means: its masks resolved against the operand's dimensions.

Shared by the fold of known arrays, the lowering of StridedSlice, of its gradient, and of updates
through it. Source: TensorFlow's `util/strided_slice_op.cc`.

Invariant: `entries` has one entry per operand dimension or new axis, in the order of the spec.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.frontends.tensorflow.lowering.context.affine import difference
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.constants import UnknownValueError, known_value
from ingot.frontends.tensorflow.lowering.context.op import Op, located
from ingot.frontends.tensorflow.lowering.context.values import Array, Known, Size, Sizes, Variable
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import mutable, record

_BOUND = "slice's bound"


@record
class Entry:
    """One dimension of the spec.

    `kind` is "slice", "index" (the dimension is dropped) or "new" (a dimension of 1 is added);
    None for `begin` or `end` means from the very start or to the very end. An index that is only
    known at run time is an instruction, and so is the begin of a slice whose size is known all the
    same: `span` is the distance to its end then. `is_checked` says that some caller made sure that
    the slice or the index lies inside.
    """

    kind: str
    begin: Size | Instruction | None = None
    end: Size | None = None
    stride: int = 1
    span: Size = 0
    is_checked: bool = False

    @property
    def is_moving(self) -> bool:
        """Whether only run time knows where it is."""
        return isinstance(self.begin, Instruction)

    def as_index(self) -> Any:
        """Return the entry as one part of a NumPy index."""
        if self.kind == "slice":
            return slice(self.begin, self.end, self.stride)
        return None if self.kind == "new" else self.begin


@record
class Strides:
    """A whole spec."""

    entries: tuple[Entry, ...]

    @staticmethod
    def of(op: Op, first: int = 1, rank: int | None = None, result: Sizes | None = None) -> Strides:
        """Read the spec of `op`, whose begin, end and strides are operands `first` and on.

        Args:
            op: the node.
            first: operand of the begins.
            rank: of what is sliced; of operand 0 if not given.
            result: dimensions of the slice, where another op has made it.
        """
        return _Reader(op, first, op.rank(0) if rank is None else rank, result).read()

    def as_index(self) -> tuple[Any, ...]:
        """Return the spec as a NumPy index, when no part of it is symbolic."""
        return tuple(entry.as_index() for entry in self.entries)


@mutable
class _Reader:
    op: Op
    first: int
    rank: int
    result: Sizes | None

    def read(self) -> Strides:
        strides = self.op.integers(self.first + 2, "strides")
        if 0 in strides:
            raise self.op.mistake(f"strides[{strides.index(0)}] must be non-zero")
        masks = {
            name: int(self.op.attribute(f"{name}_mask", 0))
            for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
        }
        count = len(strides)
        ellipsis = masks["ellipsis"]
        new = sum(1 for n in range(count) if masks["new_axis"] >> n & 1 and not ellipsis >> n & 1)
        named = count - new - (1 if ellipsis else 0)
        if named > self.rank:
            text = (
                f"Index out of range using input dim {self.rank}; input has only {self.rank} dims"
            )
            raise located(self.op.node, UnsupportedError(text, code="INGOT0312"))
        entries: list[Entry] = []
        for number, stride in enumerate(strides):
            if ellipsis >> number & 1:
                entries.extend(Entry("slice") for _ in range(self.rank - named))
            elif masks["new_axis"] >> number & 1:
                entries.append(Entry("new"))
            elif masks["shrink_axis"] >> number & 1:
                begin = self._bound(self.first, number)
                entries.append(Entry("index", begin, is_checked=self.result is not None))
            else:
                begin = None if masks["begin"] >> number & 1 else self._bound(self.first, number)
                end = None if masks["end"] >> number & 1 else self._bound(self.first + 1, number)
                done = sum(entry.kind != "index" for entry in entries)
                axis = sum(entry.kind != "new" for entry in entries)
                entries.append(self._slice(begin, end, stride, done, axis))
        if not ellipsis:
            entries.extend(Entry("slice") for _ in range(self.rank - named))
        return Strides(tuple(entries))

    def _slice(
        self,
        begin: Size | Instruction | None,
        end: Size | Instruction | None,
        stride: int,
        dimension: int,
        axis: int,
    ) -> Entry:
        """Return the entry of a slice of dimension `axis`, which is `dimension` of the result."""
        if stride > 0 and self.result is not None and self._is_moving(begin, end):
            # Where the forward slice lay inside, so does its gradient.
            size = self.result[dimension]
            span = size if stride == 1 else (size - 1) * stride + 1
            first = begin if isinstance(begin, Instruction) else self.op.b.size(begin or 0)
            return Entry("slice", first, None, stride, span, is_checked=True)
        if isinstance(begin, Instruction) and isinstance(end, Instruction) and stride > 0:
            span = self._moving_span(begin, end)
            if span is not None and not self._is_cut(begin, span, axis):
                return Entry("slice", begin, None, stride, span)
        if stride < 1 or self.first != 1:
            return Entry("slice", self._fixed(begin), self._fixed(end), stride)
        try:
            return Entry("slice", self._known(begin), self._known(end), stride)
        except UnknownValueError:
            return self._computed(begin, end, stride, axis)

    def _computed(
        self,
        begin: Size | Instruction | None,
        end: Size | Instruction | None,
        stride: int,
        axis: int,
    ) -> Entry:
        """Return the entry of a slice whose size is computed when the program runs."""
        b = self.op.b
        whole = b.size(self.op.dims(0)[axis])
        zero = b.constant(0, S64)

        def inside(bound: Size | Instruction | None, default: Instruction) -> Instruction:
            if bound is None:
                return default
            given = bound if isinstance(bound, Instruction) else b.size(bound)
            index = b.convert_to(given, S64)
            index = b.select(b.compared("LT", index, 0), b.add(index, whole), index)
            return b.clamp(zero, index, whole)

        low = inside(begin, zero)
        span = b.maximum(b.subtract(inside(end, whole), low), zero)
        size = computed_size(self.op.frame, span)
        return Entry("slice", low, None, stride, size, is_checked=True)

    def _fixed(self, bound: Size | Instruction | None) -> Size | None:
        return self.op.number(bound, _BOUND) if isinstance(bound, Instruction) else bound

    def _is_moving(self, begin: Size | Instruction | None, end: Size | Instruction | None) -> bool:
        """Whether only run time knows a slice, or its size."""
        if isinstance(begin, Instruction):
            return True
        try:
            self._known(end)
        except UnknownValueError:
            return True
        return False

    def _known(self, bound: Size | Instruction | None) -> Size | None:
        """Return a bound; raises UnknownValueError where the slice's size is to be computed."""
        if not isinstance(bound, Instruction):
            return bound
        return int(known_value(self.op.b.program, bound, _BOUND, or_computed=True).array)

    def _moving_span(self, begin: Instruction, end: Instruction) -> int | None:
        """Return `end - begin` where it is one number while the bounds themselves change."""
        program = self.op.b.program
        span = difference(end, begin, program.origins)
        try:
            for factor in (factor for product in span for factor in product):
                known_value(program, factor, "slice's size", or_computed=True)
        except UnknownValueError:
            return None
        if span and (set(span) != {()} or span[()] < 0):
            return None
        try:
            # Bounds that follow from arguments may be cut at the ends: another size for each.
            known_value(program, begin, _BOUND, or_computed=True)
            known_value(program, end, _BOUND, or_computed=True)
        except UnknownValueError:
            return span.get((), 0)
        return None

    def _is_cut(self, begin: Instruction, span: int, axis: int) -> bool:
        """Whether a window reaches over the end of its dimension in some iteration of a loop."""
        program = self.op.b.program
        form = dict(difference(begin, self.op.b.constant(0, begin.shape.dtype), program.origins))
        most: Size = form.pop((), 0) + span
        if len(form) != 1:
            return False
        ((factors, times),) = form.items()
        counter = program.counters.get(factors[0]) if len(factors) == 1 else None
        if counter is None or times < 1 or not dim_math.never_negative(counter.first):
            return False
        if isinstance(self.op.values[0], Variable):
            return False
        room = self.op.dims(0)[axis] - most - counter.most * times
        return isinstance(room, int) and room < 0

    def _bound(self, operand: int, number: int) -> Size | Instruction:
        value = self.op.values[operand]
        if isinstance(value, Known):
            return _item(value.array, number)
        packed = _packed_item(self.op, operand, number)
        if packed is not None:
            return packed
        vector = self.op.tensor(operand)
        return self.op.b.reshape_to(self.op.b.sliced(vector, 0, number, number + 1), ())


def _item(array: Array, number: int) -> Size:
    item = array.ravel()[number]
    return item if isinstance(item, Dim) else int(item)


def _packed_item(op: Op, operand: int, number: int) -> Size | Instruction | None:
    """Return element `number` of a vector that was packed from scalars.

    `x[i, :k]` packs the run-time `i` with the known bounds of other dimensions.
    """
    made = op.scope.packed.get(op.node.inputs[operand])
    if made is None or number >= len(made):
        return None
    value = made[number]
    if isinstance(value, Instruction):
        return op.b.reshape_to(value, ())
    return _item(value.array, 0) if isinstance(value, Known) else None


def bounds(entry: Entry, size: Size, *, is_computed: bool) -> tuple[Size, Size]:
    """Return (start, limit) of a forward slice of a dimension of `size`, held inside it.

    A symbolic size is taken to be large enough for what is cut off its ends, so that `x[2:]`,
    `x[1:-1]` and `x[:-2]` have the same size; the caller specialises a function for smaller ones.
    A size that the program computes may be any: `x[-1:]` of nothing is nothing.
    """
    if is_computed:
        return _computed_bounds(entry, size)
    start = 0 if entry.begin is None else entry.begin
    limit = size if entry.end is None else entry.end
    assert not isinstance(start, Instruction)
    if isinstance(size, Dim):
        cut = isinstance(start, int) and 0 <= start < _NO_LIMIT
        kept = isinstance(limit, int) and limit < 0
        return start if cut else clamp(start, size), size + limit if kept else clamp(limit, size)
    return clamp(start, size), clamp(limit, size)


def _computed_bounds(entry: Entry, size: Size) -> tuple[Size, Size]:
    """Return `bounds` that hold for every size; `x[2:]` and `x[:-2]` are equally long."""

    def inside(index: Size) -> Size:
        if not isinstance(index, int):
            return clamp(index, size)
        if index < 0:
            return dim_math.maximum(size + index, 0)
        return size - dim_math.maximum(size - index, 0)

    assert not isinstance(entry.begin, Instruction)
    start = 0 if entry.begin is None else inside(entry.begin)
    is_open = entry.end is None or (isinstance(entry.end, int) and entry.end >= _NO_LIMIT)
    limit = size if is_open or entry.end is None else inside(entry.end)
    return start, start + dim_math.maximum(limit - start, 0)


_NO_LIMIT = 2**31 - 1


def clamp(index: Size, size: Size) -> Size:
    """Return a slice bound, negative ones counted from the end, held inside 0..size."""
    if isinstance(index, int) and isinstance(size, int):
        return min(max(index + size if index < 0 else index, 0), size)
    if isinstance(index, int):
        return _clamp_number(index, size)
    return index if index == size or _inside(index, size) else dim_math.minimum(index, size)


def _clamp_number(index: int, size: Size) -> Size:
    if index in (0, 1):
        return index
    if index == -1:
        return size - 1
    if index >= _NO_LIMIT:
        return size
    if index < 0:
        return dim_math.maximum(size + index, 0)
    return dim_math.minimum(index, size)


def _inside(index: Size, size: Size) -> bool:
    """Whether a symbolic bound is provably at most `size`: size minus a number."""
    gap = size - index
    return isinstance(gap, int) and gap >= 0


def numpy_slice(entry: Entry, size: int) -> slice:
    """Return a slice entry as Python's slice, resolved for a dimension of `size`."""
    return slice(*slice(_plain(entry.begin), _plain(entry.end), entry.stride).indices(size))


def _plain(bound: Size | Instruction | None) -> int | None:
    return int(np.asarray(bound)) if bound is not None else None

# SPDX-License-Identifier: Apache-2.0
"""Stable merge sort of elements in scratch, as native functions: of sorts, and of selections.

An element of a sort of several operands is one record in scratch: a part for each operand, one
behind the other, each aligned to its size. Elements are compared as the program says (`Compared`).

`sort` goes to and fro between two areas. First, each run of `RUN` elements is sorted by insertion
into the other area (`sort_runs`); then runs are merged pairwise until there is one (`merge`). Two
long runs are merged in pieces by several threads: `go_on` finds where a piece begins in each.

Invariant: an element moves before another only if the comparison says so, so equal ones keep their
order. A comparison that is not an order (of floats with NaN) still gives a permutation.
Source: O. Green, R. McColl, D. Bader, GPU merge path (2012).
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.artifact.abi import SLOT_BYTES
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dim import round_up
from ingot.hlo.dtype import DType
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Buffer, Combiner, SortKernel
from ingot.kernel.text import fingerprint
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, inlined, native
from ingot.native.operations import bit_length
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record


@record
class Compared(Known):
    """The properties that merge sorts must share to use one code.

    Attributes:
        comparator: whether the left element comes before the right one, both of scalars; arguments
            are left and right part 0, then left and right part 1 ...
        elements: element types of the parts.
        has_fma: see `TargetSpec`.
    """

    comparator: Expr
    elements: tuple[DType, ...]
    has_fma: bool

    @property
    def name(self) -> str:
        """A name that says all of it."""
        buffers = tuple(Buffer(element, 1, False) for element in self.elements)
        return fingerprint(SortKernel(1, 1, 1, self.comparator, buffers, (*range(len(buffers)),)))

    @property
    def num_operands(self) -> int:
        """The parts of an element."""
        return len(self.elements)

    @property
    def parts(self) -> Iterator[tuple[int, lt.Type]]:
        """Bytes before each part of an element, and its type in memory."""
        offset = 0
        for element in self.elements:
            type_ = memory_type(element)
            offset = round_up(offset, type_.bytes)
            yield offset, type_
            offset += type_.bytes

    @property
    def alignment(self) -> int:
        """Bytes that an element is aligned to."""
        return max(type_.bytes for _, type_ in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of an element in scratch."""
        offset, last = list(self.parts)[-1]
        return round_up(offset + last.bytes, self.alignment)

    def part_addresses(self, f: FunctionBuilder, element: Value) -> list[tuple[lt.Type, Value]]:
        """Return type and address of each part of an element in scratch."""
        return [(type_, f.gep(element, offset)) for offset, type_ in self.parts]

    def words(self, f: FunctionBuilder, element: Value) -> Iterator[tuple[lt.Type, Value, int]]:
        """Return type, address and alignment of each integer that an element is copied by."""
        offset = 0
        for type_ in (lt.I64, lt.I32, lt.I16, lt.I8):
            while offset + type_.bytes <= self.bytes:
                yield type_, f.gep(element, offset), min(type_.bytes, self.alignment)
                offset += type_.bytes


@inlined
def element(of: Compared, area: Pointer, index: i64) -> Pointer:
    """Return the address of element `index` of an area."""
    return area + index * of.bytes


@Vectors[[Compared, Pointer, Pointer], bool]
def is_before(f: FunctionBuilder, of: Compared, left: Value, right: Value) -> Value:
    """Return whether `left` must come before `right`; both are addresses of elements in scratch.

    `of` has the comparator and the element types.
    """
    emitter = ValueEmitter(f, {}, {}, of.has_fma)
    parts = zip(of.elements, of.part_addresses(f, left), of.part_addresses(f, right), strict=True)
    arguments = [
        widen(f, f.load(*each), element, emitter.has_f16c)
        for element, *both in parts
        for each in both
    ]
    return combine(emitter, Combiner((of.comparator,)), tuple(arguments))[0]


@Vectors[[Compared, Pointer, Pointer], None]
def copy(f: FunctionBuilder, of: Compared, to: Value, source: Value) -> None:
    """Copy an element from one address in scratch to another."""
    for word, (_, address, align) in zip(of.words(f, source), of.words(f, to), strict=True):
        f.store(f.load(*word), address, align)


@Vectors[[Compared, Pointer, Pointer, Pointer, bool], None]
def copy_either(f: FunctionBuilder, of: Compared, *given: Value) -> None:
    """Copy one of two elements, both of which are read: LLVM makes no branch of it."""
    *elements, is_right = given
    for (_, to, align), *sides in zip(*(of.words(f, each) for each in elements), strict=True):
        left, right = (f.load(*word) for word in sides)
        f.store(f.select(is_right, right, left), to, align)


def _buffer(f: FunctionBuilder, env: Value, number: int) -> Value:
    """Return the address of an operand or result; callers loop over elements."""
    return f.at_entry(lambda: f.load(lt.PTR, f.gep(env, number * SLOT_BYTES), 8, invariant=True))


@Vectors[[Compared, Pointer, i64, Pointer], None]
def read_element(f: FunctionBuilder, of: Compared, env: Value, where: Value, to: Value) -> None:
    """Copy element number `where` of every operand to an address in scratch."""
    for number, (type_, address) in enumerate(of.part_addresses(f, to)):
        f.store(f.load(type_, f.gep(_buffer(f, env, number), where, type_)), address)


@Vectors[[Compared, Pointer, i64, Pointer], None]
def write_element(
    f: FunctionBuilder, of: Compared, env: Value, where: Value, source: Value
) -> None:
    """Copy an element in scratch to element number `where` of every result."""
    for number, (type_, address) in enumerate(of.part_addresses(f, source), of.num_operands):
        f.store(f.load(type_, address), f.gep(_buffer(f, env, number), where, type_))


RUN = 8
"""Elements of the runs that are merged."""


class Runs(Struct):
    """Two runs of one area: the first index of each, and the index behind its last element."""

    left: i64
    left_end: i64
    right: i64
    right_end: i64


@native
def sort(of: Compared, area: Pointer, other: Pointer, count: i64, span: i64) -> Pointer:
    """Sort the first `count` elements of an area; return the area where they are in order.

    Args:
        of: the elements and their order.
        area: where the elements are.
        other: room for as many.
        count: how many elements.
        span: `count` or more: how long the last run would be. All counts of one span end in the
            same area.
    """
    runs = Runs.on_stack()
    sort_runs(of, other, area, count)
    source = other
    target = area
    width: i64 = RUN
    while width < span:
        for low in range(0, count, 2 * width):
            runs.left = low
            runs.left_end = min(low + width, count)
            runs.right = runs.left_end
            runs.right_end = min(low + 2 * width, count)
            merge(of, target, low, source, runs)
        merged = target
        target = source
        source = merged
        width = 2 * width
    return source


@native
def sort_runs(of: Compared, target: Pointer, source: Pointer, count: i64) -> None:
    """Insert the elements of each run into the same indices of `target`."""
    for start in range(0, count, RUN):
        for number in range(start, min(start + RUN, count)):
            inserted = element(of, source, number)
            index = number
            while index > start and is_before(of, inserted, element(of, target, index - 1)):
                copy(of, element(of, target, index), element(of, target, index - 1))
                index -= 1
            copy(of, element(of, target, index), inserted)


@native
def merge(of: Compared, target: Pointer, index: i64, source: Pointer, runs: Runs) -> None:
    """Merge two runs; nothing branches on a comparison, so the time does not depend on elements.

    Args:
        of: the elements and their order.
        target: the area to merge to.
        index: where its first element goes.
        source: the area of the runs.
        runs: the runs; either may be empty.
    """
    left = runs.left
    right = runs.right
    left_end = runs.left_end
    right_end = runs.right_end
    to = index
    while left < left_end and right < right_end:
        first = element(of, source, left)
        second = element(of, source, right)
        takes_right = is_before(of, second, first)
        copy_either(of, element(of, target, to), first, second, takes_right)
        right += i64(takes_right)
        left += 1 - i64(takes_right)
        to += 1
    while left < left_end:
        copy(of, element(of, target, to), element(of, source, left))
        left += 1
        to += 1
    while right < right_end:
        copy(of, element(of, target, to), element(of, source, right))
        right += 1
        to += 1


@native
def times_merged(span: i64) -> i64:
    """Return how often `sort` merges the runs of a span, which is longer than a run."""
    return bit_length((span - 1) // RUN)


class Split(Struct):
    """The first `count` elements of two runs merged: `from_left` of them are of the left run."""

    count: i64
    from_left: i64


@native
def go_on(of: Compared, source: Pointer, runs: Runs, split: Split, count: i64) -> None:
    """Change a split of two runs to one of `count` elements: more than it had, or as many.

    With a comparison that is not an order, there are still no fewer elements of each run.
    """
    least = max(split.from_left, count - (runs.right_end - runs.right))
    most = min(split.from_left + count - split.count, runs.left_end - runs.left)
    while least < most:
        guess = (least + most) // 2
        left = element(of, source, runs.left + guess)
        if is_before(of, element(of, source, runs.right + count - guess - 1), left):
            most = guess
        else:
            least = guess + 1
    split.count = count
    split.from_left = least

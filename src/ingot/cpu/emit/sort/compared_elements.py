# SPDX-License-Identifier: Apache-2.0
"""Elements of merge sorts in memory: compared as the program says, copied, read and written.

An element of a sort of several operands is one record in scratch: a part for each operand, one
behind the other, each aligned to its size.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.artifact.abi import SLOT_BYTES
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import DType
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Buffer, Combiner, SortKernel
from ingot.kernel.text import fingerprint
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import inlined, vectors
from ingot.native.pointers import Pointer
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
            offset = -(-offset // type_.bytes) * type_.bytes
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
        return -(-(offset + last.bytes) // self.alignment) * self.alignment

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


def _emit_is_before(f: FunctionBuilder, of: Compared, left: Value, right: Value) -> Value:
    emitter = ValueEmitter(f, {}, {}, of.has_fma)
    parts = zip(of.elements, of.part_addresses(f, left), of.part_addresses(f, right), strict=True)
    arguments = [
        widen(f, f.load(*each), element, emitter.has_f16c)
        for element, *both in parts
        for each in both
    ]
    return combine(emitter, Combiner((of.comparator,)), tuple(arguments))[0]


@vectors(_emit_is_before)
def is_before(of: Compared, left: Pointer, right: Pointer) -> bool:
    """Return whether `left` must come before `right`; both are addresses of elements in scratch.

    `of` has the comparator and the element types.
    """
    ...


def _emit_copy(f: FunctionBuilder, of: Compared, to: Value, source: Value) -> None:
    for word, (_, address, align) in zip(of.words(f, source), of.words(f, to), strict=True):
        f.store(f.load(*word), address, align)


@vectors(_emit_copy)
def copy(of: Compared, to: Pointer, source: Pointer) -> None:
    """Copy an element from one address in scratch to another."""
    ...


def _emit_copy_either(f: FunctionBuilder, of: Compared, *given: Value) -> None:
    *elements, is_right = given
    for (_, to, align), *sides in zip(*(of.words(f, each) for each in elements), strict=True):
        left, right = (f.load(*word) for word in sides)
        f.store(f.select(is_right, right, left), to, align)


@vectors(_emit_copy_either)
def copy_either(of: Compared, to: Pointer, left: Pointer, right: Pointer, is_right: bool) -> None:
    """Copy one of two elements, both of which are read: LLVM makes no branch of it."""
    ...


def _buffer(f: FunctionBuilder, env: Value, number: int) -> Value:
    """Return the address of an operand or result; callers loop over elements."""
    return f.at_entry(lambda: f.load(lt.PTR, f.gep(env, number * SLOT_BYTES), 8, invariant=True))


def _emit_read(f: FunctionBuilder, of: Compared, env: Value, where: Value, to: Value) -> None:
    for number, (type_, address) in enumerate(of.part_addresses(f, to)):
        f.store(f.load(type_, f.gep(_buffer(f, env, number), where, type_)), address)


@vectors(_emit_read)
def read_element(of: Compared, env: Pointer, where: i64, to: Pointer) -> None:
    """Copy element number `where` of every operand to an address in scratch."""
    ...


def _emit_write(f: FunctionBuilder, of: Compared, env: Value, where: Value, source: Value) -> None:
    for number, (type_, address) in enumerate(of.part_addresses(f, source), of.num_operands):
        f.store(f.load(type_, address), f.gep(_buffer(f, env, number), where, type_))


@vectors(_emit_write)
def write_element(of: Compared, env: Pointer, where: i64, source: Pointer) -> None:
    """Copy an element in scratch to element number `where` of every result."""
    ...

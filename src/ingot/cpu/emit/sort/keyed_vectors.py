# SPDX-License-Identifier: Apache-2.0
"""Elements and keys of sorts by one key, as vectors: records of elements, elements of keys.

The key of an element is an integer in the order of the result, so sorting compares integers
whatever the element type, and however the comparator treats NaN and signed zeros.
"""

from __future__ import annotations

from functools import reduce

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.sort.keyed_row import KeyedSort, Row
from ingot.cpu.emit.sort.selection_vectors import in_signed_order
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import BF16, PRED, DType
from ingot.kernel.ir import Combiner
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i64


class _Elements:
    """Emits elements and keys; `env` begins with the addresses of operands, then of results."""

    def __init__(self, f: FunctionBuilder, of: KeyedSort, env: Value) -> None:
        self.f, self.of, self.env = f, of, env
        self.variant, self.word = of.variant, of.type.word
        self.emitter = ValueEmitter(f, {}, {}, of.has_fma)

    def address(self, buffer: int, where: Value, element: lt.Type) -> Value:
        """Return the address of an element of an operand or result."""
        f, env = self.f, self.env

        def load() -> Value:
            return f.load(lt.PTR, f.gep(env, buffer * SLOT_BYTES), 8, invariant=True)

        # A function that has env as a parameter may be a loop over elements.
        return f.gep(f.at_entry(load) if env in f.params else load(), where, element)

    def elements(self, where: Value) -> Value:
        """Load elements of the first operand as register values."""
        element = self.variant.elements[0]
        memory = memory_type(element)
        address = self.address(0, where, memory)
        loaded = self.f.load(vector(memory, self.of.lanes), address, memory.alignment)
        return widen(self.f, loaded, element, self.emitter.has_f16c)

    def keys(self, wide: Value) -> Value:
        """Return the keys of elements, as integers of a word whose signed order is the result's."""
        key = self.variant.key
        (value,) = combine(self.emitter, Combiner((key,)), (wide,))
        return self.directed(self.in_word(ordered_bits(self.f, value, key.dtype)))

    def own_keys(self, wide: Value) -> Value:
        """Return the keys that elements would have if no two of them shared one."""
        bits = ordered_bits(self.f, wide, self.variant.elements[0])
        return self.directed(self.in_word(bits))

    def in_word(self, bits: Value) -> Value:
        """Return integers as wide as words."""
        word = vector(self.word, bits.type.lanes)
        return bits if bits.type is word else self.f.sext(bits, word)

    def directed(self, keys: Value) -> Value:
        """Return keys in the direction of the sort, or the reverse: it is its own inverse."""
        return self.f.not_(keys) if self.variant.descending else keys

    def memory_of(self, keys: Value) -> Value:
        """Return the elements of keys as they lie in memory."""
        f, element, lanes = self.f, self.variant.elements[0], keys.type.lanes
        keys, memory = self.directed(keys), vector(memory_type(element), lanes)
        if element.is_float:
            bits = in_signed_order(f, keys, element)
            if element is not BF16:
                return f.bitcast(bits, memory)
            return f.trunc(f.lshr(bits, f.const(bits.type, 16)), memory)
        bits = keys if keys.type is memory else f.trunc(keys, memory)
        return bits if element is PRED else in_signed_order(f, bits, element)

    def store(self, values: Value, where: Value) -> None:
        """Write elements of the first result, as they lie in memory."""
        memory = values.type.element
        address = self.address(len(self.variant.elements), where, memory)
        self.f.store(values, address, memory.alignment)

    def copy(self, operand: int, source: Value, where: Value) -> None:
        """Copy an element of an operand to `where` in its result."""
        f, type_ = self.f, memory_type(self.variant.elements[operand])
        value = f.load(type_, self.address(operand, source, type_))
        f.store(value, self.address(len(self.variant.elements) + operand, where, type_))


def ordered_bits(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return signed integers in the order of `value`, register values of type `element`.

    A predicate becomes a byte, a float or integer a signed integer of its register's width.
    """
    if element is PRED:
        return f.zext(value, vector(lt.I8, value.type.lanes))
    if element.is_float:
        whole = lt.I64 if value.type.element is lt.F64 else lt.I32
        value = f.bitcast(value, vector(whole, value.type.lanes))
    return in_signed_order(f, value, element)


# ---- records


@Vectors[[KeyedSort, Row, i64, i64], bool]
def read_records(
    f: FunctionBuilder, of: KeyedSort, row: Value, where: Value, index: Value
) -> Value:
    """Make the records of `of.lanes` elements.

    Args:
        f: the function that calls this.
        of: the sorts.
        row: the row.
        where: the first element in the operands.
        index: the first record in the row.

    Returns:
        Whether there is an element that its record does not give back.
    """
    env, here, distance = (Row.c_layout.load(f, row, name) for name in ("env", "here", "distance"))
    elements, lanes = _Elements(f, of, env), of.lanes
    wide = elements.elements(where)
    keys = elements.keys(wide)
    words = [keys]
    if not of.variant.record.is_key:
        positions = f.splat(index, lanes)
        if lanes > 1:
            positions = f.add(positions, f.const(positions.type, list(range(lanes))))
        above = keys if of.is_pair else f.shl(keys, f.const(keys.type, 32))
        words = [keys, positions] if of.is_pair else [f.or_(above, positions)]
    for number, word in enumerate(words):
        array = f.gep(here, f.imul(distance, number))
        f.store(word, f.gep(array, index, elements.word), of.type.bytes)
    if not of.finds_lost:
        return f.as_condition(False)
    differs = f.icmp("ne", keys, elements.own_keys(wide))
    return differs if lanes == 1 else f.reduce("or", differs)


@Vectors[[KeyedSort, Pointer, i64], i64]
def key_at(f: FunctionBuilder, of: KeyedSort, env: Value, where: Value) -> Value:
    """Return the key of an element of the first operand."""
    elements = _Elements(f, of.single, env)
    key = elements.keys(elements.elements(where))
    return key if key.type is lt.I64 else f.sext(key, lt.I64)


# ---- elements of keys


@Vectors[[KeyedSort, Row, i64, i64], None]
def write_elements(
    f: FunctionBuilder, of: KeyedSort, row: Value, where: Value, index: Value
) -> None:
    """Write the elements of `of.lanes` keys in order to the first result, from `where` on."""
    elements = _Elements(f, of, Row.c_layout.load(f, row, "env"))
    keys = f.gep(Row.c_layout.load(f, row, "target"), index, elements.word)
    held = f.load(vector(elements.word, of.lanes), keys, of.type.bytes)
    elements.store(elements.memory_of(held), where)


@Vectors[[KeyedSort, Pointer, i64, i64], None]
def write_element(f: FunctionBuilder, of: KeyedSort, env: Value, *given: Value) -> None:
    """Write the element of a key of 32 bits to the first result."""
    where, key = given
    elements = _Elements(f, of, env)
    elements.store(elements.memory_of(f.trunc(key, lt.I32)), where)


@Vectors[[KeyedSort, Pointer, i64], None]
def replace_few(f: FunctionBuilder, of: KeyedSort, keys: Value, count: Value) -> None:
    """Make elements of at most `of.lanes` keys, where these lie."""
    elements, lanes = _Elements(f, of, keys), of.lanes
    wide = vector(elements.word, lanes)
    mask = f.icmp("slt", f.const(vector(lt.I64, lanes), list(range(lanes))), f.splat(count, lanes))
    held = f.masked_load(wide, keys, mask, align=of.type.bytes)
    f.masked_store(elements.memory_of(held), keys, mask, of.type.bytes)


@Vectors[[KeyedSort, Pointer], None]
def replace_all(f: FunctionBuilder, of: KeyedSort, keys: Value) -> None:
    """Make elements of `of.lanes` keys, where these lie."""
    elements = _Elements(f, of, keys)
    held = f.load(vector(elements.word, of.lanes), keys, of.type.bytes)
    f.store(elements.memory_of(held), keys, of.type.bytes)


# ---- keys that several elements share


@Vectors[[KeyedSort, i64], bool]
def is_shared(f: FunctionBuilder, of: KeyedSort, key: Value) -> Value:
    """Return whether several different elements share a key."""
    shared = [f.icmp("eq", key, f.const(lt.I64, other)) for other in of.variant.shared_keys]
    return reduce(f.or_, shared) if shared else f.as_condition(False)


@Vectors[[KeyedSort, Array[i64]], None]
def list_shared(f: FunctionBuilder, of: KeyedSort, keys: Value) -> None:
    """Set `keys` to the keys that several elements share."""
    for number, key in enumerate(of.variant.shared_keys):
        f.store(f.const(lt.I64, key), f.gep(keys, number, lt.I64))


# ---- copies


@Vectors[[KeyedSort, Pointer, i64, i64], None]
def copy_first(f: FunctionBuilder, of: KeyedSort, env: Value, *given: Value) -> None:
    """Copy an element of the first operand to `where` in its result."""
    _Elements(f, of, env).copy(0, *given)


@Vectors[[KeyedSort, Pointer, i64, i64], None]
def copy_others(f: FunctionBuilder, of: KeyedSort, env: Value, *given: Value) -> None:
    """Copy an element of every other operand to `where` in its result."""
    elements = _Elements(f, of, env)
    for operand in range(1, of.num_operands):
        elements.copy(operand, *given)

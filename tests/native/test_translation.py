# SPDX-License-Identifier: Apache-2.0
"""Native functions compute as machine code what they compute as plain Python."""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable

import pytest
from tests.native.support import linked, module_of

from ingot.native.functions import (
    Vectors,
    cold,
    emitted,
    exported,
    exported_for,
    external,
    external_symbols,
    inlined,
    native,
    replaced,
)
from ingot.native.layout import Field, Record
from ingot.native.operations import (
    address_of,
    bit_length,
    likely,
    memcpy,
    memset,
    trailing_zeros,
    unlikely,
)
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs, sizeof, struct_of
from ingot.native.statics import (
    external_data,
    static,
    static_array,
    static_structs,
    static_text,
    static_word,
)
from ingot.native.types import Known, i8, i32, i64
from ingot.support.diagnostics import InternalError

LIMIT = 100


class Node(Struct):
    references: Atomic[i64]
    next: Node | None
    small: i8
    number: i32
    size: i64
    callback: Callable[[i64, Node | None], i64] | None


@exported("arithmetic")
def arithmetic(a: i64, b: i64) -> i64:
    return ((a + b) * 3 - (a & b) | (a ^ b)) + (a << 3) - (b >> 2) + ~a - -b


@exported("widths")
def widths(a: i64) -> i64:
    small = i8(a)
    middle = i32(a)
    return i64(small) * 1000 + i64(middle) + i64(a > 5) + i64(i32(small) + middle)


@exported("logic")
def logic(a: i64, b: i64) -> i64:
    found: i64 = 0
    if a < b and not (a == 3 or b == 4):
        found += 1
    if 0 <= a < 10 or b > 50:
        found += 2
    if unlikely(a == b):
        found += 4
    elif likely(a != b + 1):
        found += 8
    else:
        found += 16
    return found if found != 9 else a


@exported("loops")
def loops(items: Array[i64], count: i64) -> i64:
    found: i64 = 0
    for index in range(count):
        if items[index] == 7:
            continue
        if items[index] > LIMIT:
            break
        for inner in range(index, index + 2):
            found += items[index] * inner
    while found > 1000:
        found -= 700
        if found & 3 == 1:
            break
        if found & 3 == 2:
            continue
        found -= 1
    items[0] = found
    return found


@exported("known")
def known(a: i64) -> i64:
    if LIMIT > 10:
        return a + LIMIT * 2 - max(3, 4)
    return a


class Scale(Known):
    """What a function is translated for."""

    def __init__(self, factor: int, is_shifted: bool) -> None:
        self.factor, self.is_shifted = factor, is_shifted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.factor, self.is_shifted))


@native
def scaled(of: Scale, number: i64) -> i64:
    if of.is_shifted:
        return number * of.factor + 1
    return number * of.factor


@native
def scaled_sum(of: Scale, items: Array[i64], count: i64) -> i64:
    found: i64 = 0
    step = of.factor - 1
    for index in range(1, count, step):
        found += scaled(of, min(items[index], 50)) - max(0, items[index], index)
        found += shifted(of, index)
    return found


@exported("known_objects")
def known_objects(items: Array[i64], count: i64) -> i64:
    both = scaled_sum(THREE, items, count) * 1000 + scaled_sum(SHIFTED, items, count)
    return both + scaled(Scale(3, False), 7)


THREE, SHIFTED = Scale(3, False), Scale(4, True)


@native
def room_of(of: Scale, at: i64) -> i64:
    room = Array[i64].on_stack(of.factor)
    room[at] = 5
    return i64(address_of(room) & 63) + room[at]


ROOM_OF_TWO = exported_for("room_of_two", room_of, Scale(2, False))


@emitted(lambda f, of, number: f.shl(number, f.const(number.type, of.factor)))
def shifted(of: Scale, number: i64) -> i64:
    return number << of.factor


@Vectors[[Scale, i64], i64]
def as_vectors(f, of, number):
    return number


@exported("lists")
def lists(first: Node | None) -> i64:
    total: i64 = 0
    node = first
    while node is not None:
        total += node.size + i64(node.number) + i64(node.small)
        node.small = 5
        node.number -= 1
        node = node.next
    return total


@exported("atomics")
def atomics(node: Node) -> i64:
    word = node.references
    before = word.fetch_add(5) + word.fetch_sub(2, "release") + word.fetch_or(64)
    swapped = word.compare_exchange(1000, 3, "acq_rel", "acquire")
    word.store(word.load("monotonic") + word.exchange(9) + i64(swapped), "monotonic")
    return before


@inlined
def twice(a: i64) -> i64:
    return a + a


@native
def is_even(a: i64) -> bool:
    return True if a == 0 else is_odd(a - 1)


@native
def is_odd(a: i64) -> bool:
    return False if a == 0 else is_even(a - 1)


@exported("calls")
def calls(a: i64) -> i64:
    return twice(a) if is_even(a) else twice(a + 1) + 1


@native
def add_size(a: i64, node: Node | None) -> i64:
    return a if node is None else a + node.size


@exported("callbacks")
def callbacks(node: Node) -> i64:
    node.callback = add_size
    callback = node.callback
    if callback is None:
        return 0
    return callback(1, node) + callback(2, None)


ROWS = static_structs(Node, "rows", [{"size": 3, "number": 1}, {"size": 5, "number": -2}])
SIZES = static_array(i64, "sizes", [1, 2, 4])
ROOT = static(Node, "root", size=11, next=ROWS)
COUNTER = static_word(i64, "counter")


@exported("globals")
def globals_(a: i64) -> i64:
    root = ROOT.next
    if root is None:
        return -1
    return COUNTER.fetch_add(1) * 0 + SIZES[a] + ROWS[1].size + i64(root.number) + ROOT.size


@exported("memory")
def memory(a: i64) -> i64:
    words = Array[i64].on_stack(4)
    memset(words, -1, 8 * 4)
    other = Array[i64].on_stack(a + 4)
    memcpy(other, words, 8 * 4)
    node = Node.on_stack()
    memset(node, 0, sizeof(Node))
    node.size = other[3] + a
    raw = Array[i64].at(node + 24)
    return raw[0] + other[0] + (address_of(node + 8) - address_of(node)) + address_of(None)


@exported("tables")
def tables(nodes: Structs[Node], count: i64) -> i64:
    most: i64 = 0
    best: Node | None = None
    for index in range(count):
        node = nodes[index]
        if best is None or node.size > most:
            best = node
            most = node.size
    return most if best is None else i64(best.number)


@exported("flags")
def flags(items: Array[i64], count: i64) -> i8:
    is_sorted = True
    for index in range(1, count):
        is_sorted = is_sorted and items[index - 1] <= items[index]
    return i8(is_sorted)


@external("host_function")
def host_function(a: i64, node: Node | None) -> i64: ...


@exported("outside")
def outside(a: i64) -> i64:
    return host_function(a, None) + 1


class Table(Struct, own_line=("sums",), counts={"sums": 3, "flags": 5}):
    total: i64
    sums: Array[i64]
    flags: Array[i8]
    last: i32


TABLE = static(Table, "table")


@exported("arrays")
def arrays(table: Table, by: i64) -> i64:
    sums = table.sums
    for index in range(3):
        sums[index] += by * index
        table.flags[index + 2] = i8(index)
        TABLE.sums[index] = sums[index]
    table.last = 7
    TABLE.total = TABLE.sums[0] + TABLE.sums[1] + TABLE.sums[2]
    return TABLE.total + i64(table.flags[4]) + (address_of(table.flags) - address_of(table))


GREETING = static_text("greeting", "hello")
ENDING = Pointer.at(GREETING + 3)
MARK = external_data(Atomic[i64], "outside_mark")


@cold
@exported("texts")
def texts(a: i64) -> i64:
    letters = Array[i8].at(GREETING)
    ending = Array[i8].at(ENDING)
    bits = bit_length(a) * 1000 + trailing_zeros(a + 8) * 10_000
    return i64(letters[a]) + MARK.load() + bits + (i64(ending[a]) if a <= 2 else 0)


def _offset(by: int):
    @exported(f"plus_{by}")
    def plus(a: i64) -> i64:
        return a + by

    return plus


NUMBERS = [arithmetic, logic, widths, known, calls, memory]
PLUS = [_offset(1), _offset(20)]


@pytest.fixture(scope="module")
def machine_code():
    host = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(lambda a, _: a * 3)
    address = ctypes.cast(host, ctypes.c_void_p).value
    others = [loops, lists, atomics, callbacks, globals_, tables, flags, outside, arrays, texts]
    others += [known_objects, ROOM_OF_TWO]
    imports = {"host_function": address, "outside_mark": MARK.address}
    yield linked(*NUMBERS, *PLUS, *others, imports=imports)
    assert host  # it lives as long as the code


@pytest.mark.parametrize("function", [*NUMBERS, *PLUS], ids=lambda each: each.symbol)
def test_numbers(machine_code, function):
    random.seed(1)
    for _ in range(60):
        high = 40 if function in (calls, memory) else 130
        args = [random.randint(0 if high == 40 else -high, high) for _ in function.params]
        assert machine_code(function, *args) == function(*args)


@pytest.mark.parametrize("function", [loops, flags, known_objects], ids=lambda each: each.symbol)
def test_arrays(machine_code, function):
    random.seed(2)
    for _ in range(60):
        count = random.randint(1, 8)
        values = [random.choice([1, 2, 3, 7, 50, 101]) for _ in range(count)]
        ours, theirs = Array[i64].on_stack(count), Array[i64].on_stack(count)
        for index, value in enumerate(values):
            ours[index] = theirs[index] = value
        assert machine_code(function, ours, count) == function(theirs, count)
        assert [ours[index] for index in range(count)] == [theirs[index] for index in range(count)]


def _list(length: int) -> list[Node]:
    nodes = [Node.on_stack() for _ in range(length)]
    for index, node in enumerate(nodes):
        node.size, node.number, node.small = index * 1000, -index, index
        node.next = nodes[index + 1] if index + 1 < length else None
    return nodes


def _fields(node: Node) -> list[object]:
    return [node.small, node.number, node.size, node.references.load()]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_structs(machine_code, length):
    ours, theirs = _list(length), _list(length)
    assert machine_code(lists, ours[0]) == lists(theirs[0]) == sum(1000 * i for i in range(length))
    assert [_fields(node) for node in ours] == [_fields(node) for node in theirs]


def test_null_is_none(machine_code):
    assert machine_code(lists, None) == lists(None) == 0


@pytest.mark.parametrize("start", [0, 997, 41])
def test_atomics(machine_code, start):
    (ours,), (theirs,) = _list(1), _list(1)
    for node in (ours, theirs):
        node.references.store(start)
    assert machine_code(atomics, ours) == atomics(theirs)
    assert _fields(ours) == _fields(theirs)


def test_addresses_of_functions(machine_code):
    (ours,), (theirs,) = _list(1), _list(1)
    ours.size = theirs.size = 30
    assert machine_code(callbacks, ours) == callbacks(theirs) == 33


@pytest.mark.parametrize("index", range(3))
def test_globals(machine_code, index):
    assert machine_code(globals_, index) == globals_(index) == SIZES[index] + 5 + 1 + 11


def test_structs_in_a_row(machine_code):
    memory = (ctypes.c_char * (3 * sizeof(Node)))()
    nodes = Structs[Node](ctypes.addressof(memory), memory)
    for index, size in enumerate((4, 9, 2)):
        nodes[index].size, nodes[index].number = size, 10 + index
    assert machine_code(tables, nodes, 3) == tables(nodes, 3) == 11
    assert machine_code(tables, nodes, 0) == tables(nodes, 0) == 0


def test_external_functions_get_a_meaning(machine_code):
    with replaced(host_function=lambda a, node: a * 3):
        assert machine_code(outside, 5) == outside(5) == 16
    with pytest.raises(Exception, match="'host_function' has no meaning as plain Python"):
        outside(5)


def test_arrays_within_structs(machine_code):
    assert [Table.c_layout.offset(name) for name in Table.c_layout.names] == [0, 64, 88, 96]
    (ours, theirs) = (Table.on_stack(), Table.on_stack())
    for by in (3, -5):
        assert machine_code(arrays, ours, by) == arrays(theirs, by)
    found = [[table.sums[index] for index in range(3)] for table in (ours, theirs)]
    assert found == [[0, -2, -4]] * 2
    assert [ours.flags[index] for index in range(5)] == [0, 0, 0, 1, 2]
    with pytest.raises(TypeError, match="'sums' is an array: assign its items"):
        ours.sums = theirs.sums


def test_texts_and_data_of_other_modules(machine_code):
    MARK.store(5)
    for index, letter in enumerate(b"hello\0"):
        found = machine_code(texts, index)
        ending = b"lo\0"[index] if index <= 2 else 0
        zeros = len(f"{index + 8:b}".split("1")[-1])
        bits = 1000 * index.bit_length() + 10_000 * zeros
        assert found == texts(index) == letter + 5 + bits + ending
    assert "noinline cold" in module_of(texts).text()
    assert external_symbols(sys.modules[__name__]) == ["host_function"]


def test_structs_of_tables():
    record = Record("Args", Field("node", "ptr"), Field("flag", "i8"), Field("data", "ptr"))
    args_type = struct_of(record, {"node": Node})

    @exported("of_table", args=args_type)
    def of_table(args) -> i64:
        args.flag = 3
        return args.node.size + i64(args.data is None)

    for call in (linked(of_table), lambda function, args: function(args)):
        args, (node,) = args_type.on_stack(), _list(1)
        args.node, node.size = node, 40
        assert (call(of_table, args), args.flag) == (41, 3)


def test_equal_sources_give_equal_text_and_each_function_once():
    texts = {module_of(calls, lists).text() for _ in range(2)}
    (text,) = texts
    assert text.count("@test_translation.is_even(i64  %a)") == 1
    assert "@arithmetic" not in text


def test_known_branches_leave_no_code():
    text = module_of(known).text()
    assert "br " not in text
    assert "add i64 %a, 200" in text


@native
def added(a: i64) -> i64:
    return a + LIMIT


@exported("limited")
def limited(a: i64) -> i64:
    return added(a)


def test_names_mean_what_they_mean_when_the_function_is_translated(monkeypatch):
    """A test that replaced a name while the function ran as plain Python changes no later code."""
    with monkeypatch.context() as patch:
        patch.setitem(limited.function.__globals__, "added", lambda a: a)
        assert limited(1) == 1
    assert limited(1) == linked(limited)(limited, 1) == 1 + LIMIT


@exported("stacks")
def stacks(size: i64) -> i64:
    node = Node.on_stack()
    node.next = None
    node.next = Node.at(Array[i64].on_stack(8 * size))
    again = Array[i64].at(node.next)
    total: i64 = 0
    for index in range(8 * size):
        again[index] = index
    other = Array[i64].on_stack(8 * size)
    for at in range(8 * size):
        other[at] = -1
        total += again[at]
    return total


def test_stack_memory_lives_until_the_function_returns():
    call = linked(stacks)
    for size in (1, 50, 200):
        assert call(stacks, size) == stacks(size) == 8 * size * (8 * size - 1) // 2


def test_plain_python_checks_types():
    with pytest.raises(TypeError, match="is no i64"):
        arithmetic(1 << 63, 0)
    with pytest.raises(TypeError, match="is no i64"):
        arithmetic("1", 0)  # type: ignore[arg-type]
    (node,) = _list(1)
    with pytest.raises(TypeError, match="300 is no i8"):
        node.small = 300
    assert Pointer.at(None) is None


def test_a_function_is_translated_once_for_each_object(machine_code):
    assert machine_code(ROOM_OF_TWO, 1) == 5
    text = module_of(known_objects).text()
    assert text.count("define internal i64 @test_translation.scaled_sum") == 2
    assert text.count("define internal i64 @test_translation.scaled(") == 1


def test_code_of_vectors_has_no_meaning_as_plain_python():
    with pytest.raises(InternalError, match="'as_vectors' is code of vectors"):
        as_vectors(THREE, 5)


def test_constant_structs_are_read_as_what_nobody_writes():
    class Fixed(Struct, is_constant=True):
        number: i64

    @exported("of_fixed", fixed=Fixed)
    def of_fixed(fixed) -> i64:
        return fixed.number

    assert "!invariant.load" in module_of(of_fixed).text()

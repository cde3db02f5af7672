# SPDX-License-Identifier: Apache-2.0
"""Vector code of selections: keys of elements, candidates, and the best of them.

A key is an s32 number; the signed order of keys is that of the elements of a type, and a key gives
its element back, bit for bit. A candidate is an i64: a key in the upper half, and in the lower half
a number that orders equal keys, less for later ones.

The k-th greatest of a list of candidates is found by halving the range of numbers that holds it: 64
counts at most, each of them vector work whose time does not depend on the data. Lesser ones are
dropped, the rest stays in order.
"""

from __future__ import annotations

from ingot.emit.values.types import memory_type
from ingot.hlo.dtype import DType
from ingot.kernel.sort.topk import BLOCK
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, native
from ingot.native.pointers import Array, Pointer
from ingot.native.types import Known, i32, i64
from ingot.support.records import record


@record
class Keys:
    """Emits the keys of one element type: s32 numbers whose order is that of the result.

    Floats are in total order: a negative one's lower bits are inverted, a float of as many
    bits read as an integer.
    """

    f: FunctionBuilder
    element: DType
    largest: bool

    def of(self, bits: Value) -> Value:
        """Return the keys of elements as they lie in memory (as integers)."""
        f = self.f
        key = self._ordered(bits)
        if key.type.element is not lt.I32:
            key = f.sext(key, vector(lt.I32, key.type.lanes))
        return key if self.largest else f.not_(key)

    def back(self, key: Value) -> Value:
        """Return the element of a key, as an integer of its width."""
        f = self.f
        key = key if self.largest else f.not_(key)
        width = self.bits_type()
        return self._ordered(key if width is lt.I32 else f.trunc(key, width))

    def bits_type(self) -> lt.Type:
        """Return the integer type of an element's width."""
        return lt.I32 if self.element.bits == 32 else memory_type(self.element)

    def _ordered(self, bits: Value) -> Value:
        return in_signed_order(self.f, bits, self.element)


def in_signed_order(f: FunctionBuilder, bits: Value, element: DType) -> Value:
    """Return the bits of numbers as integers in signed order, or such integers as bits.

    It is its own inverse. Floats are in total order.

    Args:
        f: the function.
        bits: integers, as wide as the numbers are there: those of a bf16 may be those of an f32.
        element: the type of the numbers.
    """
    if element.is_signed:
        return bits
    width = bits.type.element.bits
    if not element.is_float:
        return f.xor(bits, f.const(bits.type, -(1 << (width - 1))))
    sign = f.ashr(bits, f.const(bits.type, width - 1))
    return f.xor(bits, f.and_(sign, f.const(bits.type, (1 << (width - 1)) - 1)))


WORST = -(1 << 63)
"""Less than every candidate."""

MOST = (1 << 63) - 1
MOST_KEY = (1 << 31) - 1

LANES = 16
"""Candidates that are counted at once; behind the last one there is room for as many."""


@native
def keep_best(area: Array[i64], count: i64, k: i64) -> i64:
    """Leave the best k of `count` candidates (k or more) in `area`, as they come.

    Returns the least key that a later candidate must have to be among the best k.
    """
    for lane in range(LANES):
        area[count + lane] = WORST
    least: i64 = WORST
    step: i64 = WORST
    while step != 0:
        trial = least + step
        number = count_from(area, count, trial)
        if number >= k:
            least = trial
        step = (step >> 1) & MOST
        if number == k:
            step = 0
    end: i64 = 0
    for number in range(count):
        candidate = area[number]
        area[end] = candidate
        end += i64(candidate >= least)
    # Later elements of the same key lose by their index. The greatest key may come again: it joins,
    # and loses later.
    return min((least >> 32) + 1, MOST_KEY)


@Vectors[[Array[i64], i64, i64], i64]
def count_from(f: FunctionBuilder, area: Value, count: Value, trial: Value) -> Value:
    """Return how many candidates are no less than `trial`; the last block is padded."""
    wide = vector(lt.I64, LANES)
    limit = f.splat(trial, LANES)

    def block(position: Value, values: list[Value]) -> list[Value]:
        some = f.load(wide, f.gep(area, position, lt.I64))
        return [f.sub(values[0], f.sext(f.icmp("sge", some, limit), wide))]

    (lanes,) = f.loop(0, count, LANES, [f.const(wide, 0)], block)
    return f.reduce("add", lanes)


@record
class Selection(Known):
    """The properties that selections must share to use one code: element type and direction."""

    element: DType
    largest: bool

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"{self.element.name}_{'greatest' if self.largest else 'least'}"

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return memory_type(self.element).bytes

    def keys(self, f: FunctionBuilder) -> Keys:
        """Return what emits keys."""
        return Keys(f, self.element, self.largest)


# ---- blocks of elements


def _keys_of_block(f: FunctionBuilder, of: Selection, data: Value) -> Value:
    keys = of.keys(f)
    return keys.of(f.load(vector(keys.bits_type(), BLOCK), data, of.bytes))


def _hits(f: FunctionBuilder, keys: Value, limit: Value) -> Value:
    return f.icmp("sge", keys, f.splat(f.trunc(limit, lt.I32), BLOCK))


@Vectors[[Selection, Pointer, i64], i64]
def find_hits(f: FunctionBuilder, of: Selection, data: Value, limit: Value) -> Value:
    """Return a bit for each element of a block: whether its key is no less than the limit."""
    return f.bitcast(_hits(f, _keys_of_block(f, of, data), limit), lt.I64)


@Vectors[[Selection, Pointer, i64, i64, Array[i32]], i64]
def find_last_hits(f: FunctionBuilder, of: Selection, *given: Value) -> Value:
    """Do so for fewer elements than a block has, and set `keys` to theirs."""
    data, count, limit, room = given
    keys = of.keys(f)
    left = f.splat(f.trunc(count, lt.I32), BLOCK)
    mask = f.icmp("ult", f.const(left.type, list(range(BLOCK))), left)
    found = keys.of(f.masked_load(vector(keys.bits_type(), BLOCK), data, mask))
    f.store(found, room)
    return f.bitcast(f.and_(_hits(f, found, limit), mask), lt.I64)


@Vectors[[Selection, Pointer, Array[i32]], None]
def list_keys(f: FunctionBuilder, of: Selection, data: Value, keys: Value) -> None:
    """Set `keys` to those of a block."""
    f.store(_keys_of_block(f, of, data), keys)


# ---- candidates


@Vectors[[Selection, Pointer, i64, Array[i64]], i64]
def fill_candidates(f: FunctionBuilder, of: Selection, *given: Value) -> Value:
    """Set `area` to the candidates of a row; return the greatest."""
    data, length, area = given
    keys, wide = of.keys(f), vector(lt.I64, LANES)
    width, none = keys.bits_type(), f.const(wide, WORST)

    def block(position: Value, best: list[Value]) -> list[Value]:
        indices = f.add(f.splat(position, LANES), f.const(wide, list(range(LANES))))
        inside = f.icmp("slt", indices, f.splat(length, LANES))
        address = f.gep(data, position, width, inbounds=False)
        key = keys.of(f.masked_load(vector(width, LANES), address, inside))
        last = f.sub(f.const(wide, (1 << 32) - 1), indices)
        found = f.or_(f.shl(f.zext(key, wide), f.const(wide, 32)), last)
        found = f.select(inside, found, none)
        f.store(found, f.gep(area, position, lt.I64))
        return [f.intrinsic("llvm.smax", wide, [best[0], found])]

    return f.reduce("smax", f.loop(0, length, LANES, [none], block)[0])


@Vectors[[Array[i64], i64, i64], i64]
def greatest_below(f: FunctionBuilder, area: Value, length: Value, limit: Value) -> Value:
    """Return the greatest candidate of a row that is less than `limit`."""
    wide = vector(lt.I64, LANES)
    none, bound = f.const(wide, WORST), f.splat(limit, LANES)

    def block(position: Value, best: list[Value]) -> list[Value]:
        some = f.load(wide, f.gep(area, position, lt.I64))
        left = f.select(f.icmp("slt", some, bound), some, none)
        return [f.intrinsic("llvm.smax", wide, [best[0], left])]

    return f.reduce("smax", f.loop(0, length, LANES, [none], block)[0])


@Vectors[[Selection, Pointer, i64, i64], None]
def write_element(f: FunctionBuilder, of: Selection, values: Value, *given: Value) -> None:
    """Write the element of a candidate."""
    where, candidate = given
    keys = of.keys(f)
    key = f.trunc(f.ashr(candidate, f.const(lt.I64, 32)), lt.I32)
    f.store(keys.back(key), f.gep(values, where, keys.bits_type()))

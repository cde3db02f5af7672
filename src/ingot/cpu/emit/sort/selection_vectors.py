# SPDX-License-Identifier: Apache-2.0
"""Vector code of selections: elements compared with the k-th best, the greatest of a row."""

from __future__ import annotations

from ingot.cpu.emit.sort.best import LANES, WORST
from ingot.cpu.emit.sort.selection_keys import Keys
from ingot.emit.values.types import memory_type
from ingot.hlo.dtype import DType
from ingot.kernel.sort.topk import BLOCK
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import vectors
from ingot.native.pointers import Array, Pointer
from ingot.native.types import Known, i32, i64
from ingot.support.records import record


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


def _emit_hits(f: FunctionBuilder, of: Selection, data: Value, limit: Value) -> Value:
    return f.bitcast(_hits(f, _keys_of_block(f, of, data), limit), lt.I64)


@vectors(_emit_hits)
def find_hits(of: Selection, data: Pointer, limit: i64) -> i64:
    """Return a bit for each element of a block: whether its key is no less than the limit."""
    ...


def _emit_rest(f: FunctionBuilder, of: Selection, *given: Value) -> Value:
    data, count, limit, room = given
    keys = of.keys(f)
    left = f.splat(f.trunc(count, lt.I32), BLOCK)
    mask = f.icmp("ult", f.const(left.type, list(range(BLOCK))), left)
    found = keys.of(f.masked_load(vector(keys.bits_type(), BLOCK), data, mask))
    f.store(found, room)
    return f.bitcast(f.and_(_hits(f, found, limit), mask), lt.I64)


@vectors(_emit_rest)
def find_last_hits(of: Selection, data: Pointer, count: i64, limit: i64, keys: Array[i32]) -> i64:
    """Do so for fewer elements than a block has, and set `keys` to theirs."""
    ...


def _emit_keys(f: FunctionBuilder, of: Selection, data: Value, keys: Value) -> None:
    f.store(_keys_of_block(f, of, data), keys)


@vectors(_emit_keys)
def list_keys(of: Selection, data: Pointer, keys: Array[i32]) -> None:
    """Set `keys` to those of a block."""
    ...


# ---- candidates


def _emit_fill(f: FunctionBuilder, of: Selection, *given: Value) -> Value:
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


@vectors(_emit_fill)
def fill_candidates(of: Selection, data: Pointer, length: i64, area: Array[i64]) -> i64:
    """Set `area` to the candidates of a row; return the greatest."""
    ...


def _emit_below(f: FunctionBuilder, area: Value, length: Value, limit: Value) -> Value:
    wide = vector(lt.I64, LANES)
    none, bound = f.const(wide, WORST), f.splat(limit, LANES)

    def block(position: Value, best: list[Value]) -> list[Value]:
        some = f.load(wide, f.gep(area, position, lt.I64))
        left = f.select(f.icmp("slt", some, bound), some, none)
        return [f.intrinsic("llvm.smax", wide, [best[0], left])]

    return f.reduce("smax", f.loop(0, length, LANES, [none], block)[0])


@vectors(_emit_below)
def greatest_below(area: Array[i64], length: i64, limit: i64) -> i64:
    """Return the greatest candidate of a row that is less than `limit`."""
    ...


def _emit_element(f: FunctionBuilder, of: Selection, values: Value, *given: Value) -> None:
    where, candidate = given
    keys = of.keys(f)
    key = f.trunc(f.ashr(candidate, f.const(lt.I64, 32)), lt.I32)
    f.store(keys.back(key), f.gep(values, where, keys.bits_type()))


@vectors(_emit_element)
def write_element(of: Selection, values: Pointer, where: i64, candidate: i64) -> None:
    """Write the element of a candidate."""
    ...

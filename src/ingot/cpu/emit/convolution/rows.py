# SPDX-License-Identifier: Apache-2.0
"""Rows of elements that drivers of convolutions copy and pack, as vectors."""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import lane_mask
from ingot.cpu.emit.driver_records import Elements
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import vectors
from ingot.native.pointers import Pointer
from ingot.native.types import i64


def _emit_copy(
    f: FunctionBuilder, of: Elements, target: Value, source: Value, count: Value
) -> None:
    whole = f.as_value(f.imul(f.idiv(count, of.lanes), of.lanes))

    def at(base: Value, index: Value) -> Value:
        return f.gep(base, index, of.type)

    def copy(index: Value) -> None:
        f.store(f.load(of.vector, at(source, index), of.bytes), at(target, index), of.bytes)

    def copy_rest() -> None:
        mask = lane_mask(f, f.sub(count, whole), of.lanes)
        assert mask is not None, "vectors have lanes"
        f.masked_store(f.masked_load(of.vector, at(source, whole), mask), at(target, whole), mask)

    f.for_range(whole, copy, step=of.lanes)
    f.if_(f.icmp("slt", whole, count), copy_rest)


@vectors(_emit_copy)
def copy_elements(of: Elements, target: Pointer, source: Pointer, count: i64) -> None:
    """Copy a few elements."""
    ...


def _emit_pack(
    f: FunctionBuilder, of: Elements, target: Value, source: Value, count: Value
) -> None:
    for number in range(of.vectors):
        first = number * of.lanes
        mask = lane_mask(f, f.isub(count, first), of.lanes)
        assert mask is not None, "vectors have lanes"
        address = f.gep(source, first, of.type, inbounds=False)
        value = f.masked_load(of.vector, address, mask)
        f.store(value, f.gep(target, first, of.type), of.bytes)


@vectors(_emit_pack)
def pack_row(of: Elements, target: Pointer, source: Pointer, count: i64) -> None:
    """Fill a row of a panel: elements from the `count`-th on are zero."""
    ...

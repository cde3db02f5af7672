# SPDX-License-Identifier: Apache-2.0
"""Packing rows of panels, as vectors: columns behind the last one are zero."""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import lane_mask
from ingot.cpu.emit.driver_records import Elements
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import vectors
from ingot.native.pointers import Pointer
from ingot.native.types import i64


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

# SPDX-License-Identifier: Apache-2.0
"""Layouts of buffers: those that a host asks for, and the handles of those that are not row-major.

A layout orders the dimensions of an array, minor to major; the elements are dense in memory.
Invariant: a layout has one handle, which lives as long as the process, and row-major ones have
none here, so that two buffers with the same handle, or none, and rank have the same layout.
"""

from __future__ import annotations

from ingot.client.pjrt.c_api import UNIMPLEMENTED, record
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Handle, lookup, read_words
from ingot.client.pjrt.records import BUFFER, LAYOUT
from ingot.semantics.call_layouts import Order, row_major
from ingot.semantics.entry_layouts import layout_text
from ingot.support.forking import ForkLock

_TILED = 0
MEMORY_LAYOUT = record("PJRT_Buffer_MemoryLayout")


class _Layout(Handle):
    """PJRT_Layouts_MemoryLayout of an order that is not row-major."""

    def __init__(self, order: Order) -> None:
        """Fill the record."""
        super().__init__(LAYOUT)
        self.order = order
        self.set_text("text", layout_text(order))


_layouts: dict[Order, _Layout] = {}
_lock = ForkLock()


def layout_address(order: Order) -> int:
    """Return the handle of a layout; 0 if it is row-major."""
    if order == row_major(len(order)):
        return 0
    with _lock:
        found = _layouts.get(order)
        if found is None:
            found = _layouts[order] = _Layout(order)
        return found.address


def order_of_buffer(buffer: int) -> Order:
    """Return the layout of a buffer."""
    layout = BUFFER.read(buffer, "layout")
    return lookup(layout, _Layout).order if layout else row_major(BUFFER.read(buffer, "rank"))


def read_order(address: int, rank: int) -> Order:
    """Return the layout that a host wants of a buffer; null is row-major.

    Raises:
        PjrtError: it has tiles or strides, or does not order the dimensions.
    """
    if not address:
        return row_major(rank)
    layout = MEMORY_LAYOUT.structure.from_address(address)
    is_tiled = layout.layout_type == _TILED
    order = tuple(read_words(layout.minor_to_major, layout.minor_to_major_size)) if is_tiled else ()
    if not is_tiled or layout.num_tiles or sorted(order) != list(range(rank)):
        raise PjrtError(
            UNIMPLEMENTED,
            f"a buffer of rank {rank} cannot have the layout {list(order)} with "
            f"{layout.num_tiles} tiles: buffers of Ingot are dense, in an order of the dimensions",
        )
    return order


def host_strides(address: int, dims: list[int], item: int) -> list[int]:
    """Return the byte strides of a host's layout; null is row-major."""
    if address:
        layout = MEMORY_LAYOUT.structure.from_address(address)
        if layout.layout_type != _TILED:
            return read_words(layout.minor_to_major, layout.minor_to_major_size)
    return dense_strides(dims, read_order(address, len(dims)), item)


def dense_order(dims: list[int], strides: list[int], item: int) -> Order | None:
    """Return the layout of an array with these byte strides; None if it is not dense."""
    order = tuple(sorted(range(len(dims)), key=lambda dim: (strides[dim], -dim)))
    rows = zip(dims, strides, dense_strides(dims, order, item), strict=True)
    return order if all(size == 1 or given == dense for size, given, dense in rows) else None


def dense_strides(dims: list[int], order: Order, item: int) -> list[int]:
    """Return byte strides of a dense array.

    Args:
        dims: its dimensions.
        order: its axes, the one with the smallest stride first.
        item: bytes of an element.
    """
    strides = [0] * len(dims)
    for axis in order:
        strides[axis] = item
        item *= dims[axis]
    return strides

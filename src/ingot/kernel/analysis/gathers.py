# SPDX-License-Identifier: Apache-2.0
"""Gathers: loads whose indices differ from lane to lane, and which of them are computed ahead.

An instruction that gathers is slower than one load for each lane, and its cache misses wait for
each other. But taking single indices out of a vector costs as much as the loads, through registers
or through memory that was written just before. So along long axes the indices of a whole block are
stored first; they have reached the cache when the loads need them.

While a table is in a cache, the instruction is faster: lanes are read one by one of large buffers.
CPUs with fast ones have no indices ahead (`Vectors.has_fast_gathers`): of tables of 16 to 256 MB
lanes read one by one there took 0.75 to 0.85 of the time of those at indices ahead.

The schedule says which, and which integers hold the indices; `emit.loop.gather_indices` computes
them.

Invariant: an index computed ahead is one that some point of the loop reads, so nothing else is
read.
"""

from __future__ import annotations

from ingot.hlo.dim import Atom, Dim, product, symbols_of
from ingot.kernel.expr import Access, Expr, walk
from ingot.kernel.index_math import coefficient, dim_of, upper_bound
from ingot.kernel.ir import Axis, Buffer, LoopKernel
from ingot.llvm.machine_model import L3_BYTES, Vectors
from ingot.support.records import record

INDICES_AHEAD = 256
"""Indices of a block: an index stored 64 ago has reached the cache; more than 256 are no faster."""

LEAST_AHEAD = 64
"""Shorter axes have no indices ahead."""

MOST_LOADED = 16
"""Lanes that are loaded one by one: more are no faster, only more code."""

MOST_GATHERS = 8
"""Loads of one loop that have a block each on the stack."""

LARGE_BYTES = L3_BYTES // 2
"""Tables of more than this miss caches and pages."""

GATHERED_BITS = (32, 64)
"""Elements that an instruction gathers."""

NARROW_ELEMENTS = 1 << 30
"""Arrays whose indices fit 32 bits, up to an offset that is any index of theirs."""


@record
class Gather:
    """A load whose index varies along an axis by run-time values.

    Attributes:
        load: the expression.
        near: the part of its index that values and the axis make.
        base: the rest, which holds for all lanes.
    """

    load: Expr
    near: int | Dim
    base: int | Dim

    @property
    def access(self) -> Access:
        """What the load reads."""
        return self.load.payload

    def is_free(self, axis: str) -> bool:
        """Whether its indices do not vary with another axis."""
        names = symbols_of((self.near,))
        return axis not in names and not any(axis in value.axes for value in self.values)

    @property
    def values(self) -> tuple[Expr, ...]:
        """The run-time values that `near` uses."""
        return self.load.args


def gathers(exprs: tuple[Expr, ...], axes: tuple[Axis, ...]) -> tuple[Gather, ...]:
    """Return the gathers along the last of `axes` that need no others.

    Arguments come first: the index of one may be what another loads.
    """
    along, bound = axes[-1].name, {axis.name for axis in axes}
    found = [item for item in walk(exprs) if _is_gather(item, along) and item.axes <= bound]
    return tuple(_gather(item, along) for item in found[:MOST_GATHERS])


def _is_gather(item: Expr, axis: str) -> bool:
    is_by_value = item.op == "load" and bool(item.args) and not item.payload.masked
    return is_by_value and not item.reductions and any(axis in arg.axes for arg in item.args)


def _gather(load: Expr, axis: str) -> Gather:
    where: int | Dim = load.payload.index
    near: int | Dim = 0
    for key, factor in _terms(where):
        term = product([factor, *map(dim_of, key)])
        names = symbols_of((term,))
        if axis in names or any(name[0] == "$" for name in names):
            near = near + term
    return Gather(load, near, where - near)


def _terms(where: int | Dim) -> tuple[tuple[tuple[Atom, ...], int], ...]:
    return () if isinstance(where, int) else where.terms


@record
class GathersAhead:
    """The gathers of a kernel whose indices are computed ahead.

    Attributes:
        bits: bits of the integers that hold their indices; 0: there are none.
        of_passes: those of each pass, or of all together where lanes run along an axis of the grid.
    """

    bits: int
    of_passes: tuple[tuple[Gather, ...], ...]

    @property
    def loads(self) -> tuple[Expr, ...]:
        """The loads of all passes."""
        return tuple(item.load for gathers in self.of_passes for item in gathers)


NOTHING_AHEAD = GathersAhead(0, ())


def gathers_ahead(
    kernel: LoopKernel, vectors: Vectors, axis: Axis | None, lanes: tuple[int, ...]
) -> GathersAhead:
    """Return the gathers along the vector axis, or along the passes' own, with indices ahead.

    `vectors` are the target's, `lanes` those of each pass.
    """
    if kernel.serial or any(store.combiner for store in kernel.stores):
        return NOTHING_AHEAD
    if vectors.has_fast_gathers and not any(map(_is_slow, walk(kernel.exprs))):
        return NOTHING_AHEAD
    if axis is not None:
        bits = _bits(kernel, kernel.exprs, (*kernel.grid, axis), lanes[0])
        return GathersAhead(bits, (gathers_of_passes(kernel, axis),)) if bits else NOTHING_AHEAD
    own = zip(kernel.passes, lanes, strict=True)
    found = [_bits(kernel, i.exprs, (*kernel.grid, *i.axes), n) for i, n in own if i.axes]
    if not any(found):
        return NOTHING_AHEAD
    of_passes = [
        gathers(item.exprs, (*kernel.grid, *item.axes)) if item.axes else ()
        for item in kernel.passes
    ]
    return GathersAhead(max(found), tuple(of_passes))


def gathers_of_passes(kernel: LoopKernel, axis: Axis) -> tuple[Gather, ...]:
    """Return the gathers of all passes along an axis of the grid."""
    exprs = tuple(expr for item in kernel.passes for expr in item.exprs)
    return gathers(exprs, (*kernel.grid, axis))


def _is_slow(item: Expr) -> bool:
    """Whether an expression is a load by values that no CPU has a fast instruction for."""
    is_gathered = item.dtype.bits in GATHERED_BITS and not item.dtype.is_complex
    return item.op == "load" and len(item.args) > item.payload.masked and not is_gathered


def _bits(kernel: LoopKernel, exprs: tuple[Expr, ...], axes: tuple[Axis, ...], lanes: int) -> int:
    extent = axes[-1].extent
    is_short = isinstance(extent, int) and extent < LEAST_AHEAD
    if lanes == 1 or lanes.bit_count() > 1 or is_short:
        return 0
    return bits_of_gathers(kernel, gathers(exprs, axes), axes)


def bits_of_gathers(kernel: LoopKernel, found: tuple[Gather, ...], axes: tuple[Axis, ...]) -> int:
    """Return the bits of indices of gathers along the last of `axes`, 0 if there are none."""
    buffers = (*kernel.buffers, *kernel.local_buffers)
    bits = [bits_of_index(item.near, buffers[item.access.buffer], axes) for item in found]
    return max(bits, default=0)


def bits_of_index(where: int | Dim, array: Buffer, axes: tuple[Axis, ...]) -> int:
    """Return the bits in which an index in an array is computed.

    Sums and products wrap: they may be larger on the way. What is divided must fit, too.
    """
    extents = {axis.name: axis.extent for axis in axes}
    numbers: list[int | Dim] = [array.size, *(factor for _, factor in _terms(where))]
    for atom in (atom for key, _ in _terms(where) for atom in key):
        if atom.function in ("floordiv", "mod"):
            most = upper_bound(atom.left, extents)
            numbers += [NARROW_ELEMENTS if most is None else most, atom.right]
        elif atom.function:
            return 64
        else:
            extent = extents.get(atom.text)
            numbers.append(extent if isinstance(extent, int) else 0)
    is_narrow = all(isinstance(n, int) and abs(n) < NARROW_ELEMENTS for n in numbers)
    return 32 if is_narrow else 64


def block_of_rows(kernel: LoopKernel) -> int | str:
    """Return how many short rows have their indices ahead together, or why none have."""
    if kernel.serial or len(kernel.grid) < 2 or kernel.has_loops:
        return "it gathers no rows"
    *_, rows, inner = kernel.grid
    if not isinstance(rows.extent, int) or not isinstance(inner.extent, int):
        return "rows have symbolic sizes"
    stores = kernel.stores
    are_rows = all(s.is_simple and coefficient(s.index, inner.name) == 1 for s in stores)
    if not 1 < inner.extent < LEAST_AHEAD:
        return f"rows do not have 2 to {LEAST_AHEAD - 1} elements"
    if rows.extent < INDICES_AHEAD:
        return f"fewer than {INDICES_AHEAD} rows"
    if not are_rows or not gathers(kernel.exprs, kernel.grid):
        return "it gathers no rows"
    return INDICES_AHEAD // lanes_of_short_row(inner.extent)


def lanes_of_short_row(length: int) -> int:
    """Return the lanes of a row that is short."""
    return min(1 << (length - 1).bit_length(), MOST_LOADED)


def lanes_loaded(indices: int, lanes: int) -> int:
    """Return the lanes of a loop that may have `indices` ahead."""
    return min(lanes, MOST_LOADED) if indices else lanes


def large_buffers(kernel: LoopKernel) -> frozenset[int]:
    """Return the numbers of large buffers that are read at indices which are values."""
    loads = (node for node in walk(kernel.exprs) if node.op == "load" and node.args)
    read = {load.payload.buffer for load in loads}
    return frozenset(
        n for n, each in enumerate(kernel.buffers) if n in read and is_large_buffer(each)
    )


def is_large_buffer(buffer: Buffer) -> bool:
    """Whether a buffer is known to miss the caches."""
    return isinstance(buffer.size, int) and buffer.size * buffer.dtype.bits // 8 > LARGE_BYTES


def rows_fetched(kernel: LoopKernel, axis: Axis) -> tuple[Expr, ...]:
    """Return the loads of whole rows of large buffers, which run-time values choose.

    Lanes run along `axis`, the last of the grid; the values vary with the axis before it. Only
    reading is reordered, so nothing that is stored may change the values.
    """
    if kernel.serial or len(kernel.grid) < 2 or kernel.grid[-1] != axis:
        return ()
    row, large = kernel.grid[-2].name, large_buffers(kernel)
    names = {each.name for each in kernel.grid}
    return tuple(
        load
        for load in walk(kernel.exprs)
        if load.op == "load"
        and load.args
        and not load.payload.masked
        and load.payload.buffer in large
        and load.axes <= names
        and coefficient(load.payload.index, axis.name) == 1
        and not any(axis.name in arg.axes for arg in load.args)
        and any(row in arg.axes for arg in load.args)
    )

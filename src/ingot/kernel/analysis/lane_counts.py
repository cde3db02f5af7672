# SPDX-License-Identifier: Apache-2.0
"""How many lanes a kernel's loops have: as many registers as values may take, few of them empty.

The number is a power of two, except for rows laid end to end (`kernel.passes.short_rows`).

A fold runs in lanes along the axis that it folds if each lane may start from the identity of the
op; at the end the lanes are folded. Lanes of a fold that finds an index are joined by index
(`argminmax`). A running fold takes a whole vector at a time if its elements are dense. Sums and
products of floats are then made in another order than along the axis, as in any other reduction.

Invariant: the number of lanes depends on the kernel and its extents alone.
"""

from __future__ import annotations

from collections import Counter

from ingot.hlo.dim import Dim, round_up
from ingot.hlo.dtype import BF16, PRED, DType
from ingot.hlo.interfaces import Trait, ops_with
from ingot.kernel.expr import CALL_NODES, EXACT, LEAVES, Expr, is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction
from ingot.kernel.loop.argminmax import arg_fold
from ingot.llvm.machine_model import MANY_REGISTERS, Vectors

LANE_BITS = 32
"""Lanes are counted in elements this wide, or in wider ones."""

LANE_COMBINERS = ops_with(Trait.ASSOCIATIVE)
"""Combiners with an identity: lanes may start from it and be folded at the end."""

LONG_ROW = 128
"""Least elements of a row in which each lane finds the index of an extreme, before joining."""

SHORTEST_SCAN = 32
"""Shorter scans go element by element."""


def folds_lanes(item: Pass) -> bool:
    """Whether every reduction of the pass may be kept in lanes and folded at the end."""
    return all(
        starts_from_identity(fold) or _finds_index_in_long_row(item, fold)
        for fold in item.reductions
    )


def starts_from_identity(fold: Reduction) -> bool:
    """Whether accumulators start from the combiner's identity, the initial value coming last."""
    return fold.combiner.opcode in LANE_COMBINERS


def scans_lanes(item: Pass) -> bool:
    """Whether a running fold may take vectors at once: its elements are dense.

    Sums and products of narrow floats are folded one by one, each rounded to its type.
    """
    (axis,), (fold,) = item.axes, item.reductions
    wheres = [store.index for store in item.stores]
    wheres += [node.payload.index for node in walk(item.exprs) if node.op == "load"]
    is_dense = all(coefficient(where, axis.name) in (0, 1, -1) for where in wheres)
    is_long = not isinstance(axis.extent, int) or axis.extent >= SHORTEST_SCAN
    is_narrow = fold.inputs[0].dtype.is_narrow_float
    rounds = is_narrow and starts_from_identity(fold) and fold.combiner.opcode not in EXACT
    return is_dense and is_long and not rounds


def _finds_index_in_long_row(item: Pass, fold: Reduction) -> bool:
    """Whether a fold finds an index, and joining lanes is little work beside finding it."""
    is_short = any(isinstance(a.extent, int) and a.extent < LONG_ROW for a in item.axes)
    return not is_short and arg_fold(item, fold) is not None


MANY_LIVE = 60
"""Of more nodes two registers at a time are enough: there is always something to compute."""

BREADTH = 4
"""Ops on each level of an expression from which on those of two registers keep a CPU busy. Where
four registers of each value are more than there are, two took 0.86 of the time for the edge
functions of a triangle and 0.71 to 0.83 for sums of 16 and 20 products; where they fit, 1.06 to
1.13, and chains of ops that wait for each other 1.23 to 1.34 (AVX-512, one thread, 2026-11-28)."""

MANY_OPS, MOST_MASKS = 32, 16
"""Least ops of a chain, and most masks among them: its code is as good without optimization."""

ROUNDING, CALLING = 5, 4
"""Ops that round a result to bf16; that bring registers to a subroutine and back."""


def pass_lanes(kernel: LoopKernel, item: Pass, vectors: Vectors) -> int:
    """Return the lanes along a pass's own innermost axis."""
    if not item.axes or not folds_lanes(item) or kernel.serial:
        return 1
    if item.is_running and not scans_lanes(item):
        return 1
    return most_lanes(kernel, vectors, item.axes[-1].extent, False, item)


def most_lanes(
    kernel: LoopKernel,
    vectors: Vectors,
    extent: int | Dim,
    wide: bool,
    item: Pass | None = None,
) -> int:
    """Return the lanes of a loop over `extent` points of a kernel, or of one of its passes.

    `wide`: each lane folds a column.
    """
    exprs = item.exprs if item is not None else kernel.exprs
    nodes = [node for node in walk(exprs) if node.op not in ("constant", "index")]
    called = sum(1 for node in nodes if is_expensive(node))
    live = len(nodes) + 2 * called
    # Long chains wait for each result: two at a time are faster even where registers are short.
    # Functions are subroutines: each has the registers to itself, and fills them with four, of the
    # parts of complex numbers too where little else needs registers. Where they are a third of the
    # work, four are faster for all of it (normal distributions by 4 to 15 %): between calls
    # everything lies in memory anyway.
    mostly_calls = called * CALL_NODES >= len(nodes)
    calls_much = 2 * called * CALL_NODES >= len(nodes)
    is_long = live > MANY_LIVE or _crowds_registers(nodes, vectors)
    registers = 2 if is_long and not calls_much else 4
    of_parts = called > 0 and mostly_calls and len(nodes) < MANY_OPS
    widest = max((_width(node.dtype, of_parts) for node in nodes), default=LANE_BITS)
    if wide:
        live += sum(_fold_size(fold) for each in kernel.passes for fold in each.reductions)
        # A sum of little more than loads: long pieces of each row, half of the registers, so that
        # every row touches few pages and cache lines follow each other.
        if live <= 24 and vectors.registers >= MANY_REGISTERS:
            registers = 16 if live <= 4 else 8
        elif live <= 6 and vectors.registers >= 16:
            registers = 8
    held = sum(len(fold.inputs) for each in kernel.passes for fold in each.reductions)
    while registers > 1 and registers * held > vectors.registers:
        registers //= 2
    lanes = vectors.lanes(max(widest, 32), registers)
    if isinstance(extent, int):
        while lanes > 1 and lanes // 2 >= extent:
            lanes //= 2
        if wide:
            lanes = _least_masked(extent, lanes, vectors.lanes(max(widest, 32), 4))
    return lanes


def _crowds_registers(nodes: list[Expr], vectors: Vectors) -> bool:
    """Whether ops that wait for few others hold more values at once than registers, of four each.

    `nodes` are in the order in which they are emitted. What all points share takes one register, if
    it is used again.
    """
    height = max((node.height for node in nodes), default=0)
    if len(nodes) < BREADTH * height or vectors.registers < MANY_REGISTERS:
        return False
    uses = Counter(arg for node in nodes for arg in node.args)
    shared = sum(1 for arg, count in uses.items() if not arg.axes and count > 1)
    held = most = 0
    for node in nodes:
        held += bool(node.axes)
        most = max(most, held)
        for arg in dict.fromkeys(node.args):
            uses[arg] -= node.args.count(arg)
            held -= uses[arg] == 0 and bool(arg.axes)
    return 4 * most + shared > vectors.registers


def _least_masked(extent: int, lanes: int, least: int) -> int:
    """Return `lanes`, or fewer lanes that fold columns in four fifths of the time.

    Blocks that fit the extent better have fewer masked lanes. With `least` lanes enough sums are in
    flight that none waits for the one before.
    """
    taken, each = round_up(extent, lanes), lanes
    while (each := each // 2) >= least:
        if taken * 4 >= round_up(extent, each) * 5:
            return each
    return lanes


def _width(element: DType, of_parts: bool) -> int:
    """Return the bits of a lane, of a complex number's parts where functions take those."""
    return element.bits // 2 if of_parts and element.is_complex else element.bits


def is_latency_bound(kernel: LoopKernel, vectors: Vectors) -> bool:
    """Whether a kernel computes its points alone, by many ops on neighbouring elements.

    What is between two of them then fits the registers where there are 32, and the eight for masks,
    whoever gives them out.
    """
    nodes = [node for node in walk(kernel.exprs) if node.op not in ("constant", "index")]
    return (
        _ops_of(nodes) >= MANY_OPS
        and vectors.registers >= MANY_REGISTERS
        and sum(1 for node in nodes if node.dtype is PRED) <= MOST_MASKS
        and all(not item.axes and not item.reductions for item in kernel.passes)
        and not any(node.args for node in nodes if node.op == "load")
    )


def _ops_of(nodes: list[Expr]) -> int:
    """Return how many ops compute expressions, with what LLVM sees of rounding and of calls."""
    rounded = sum(1 for each in nodes if each.dtype is BF16 and each.op not in EXACT | LEAVES)
    return len(nodes) + ROUNDING * rounded + CALLING * sum(map(is_expensive, nodes))


def results_of_register(kernel: LoopKernel, vectors: Vectors) -> int:
    """Return how many results of the first pass's widest fold a register holds, in words."""
    folds = kernel.passes[0].reductions
    widest = max((each.dtype.bits for fold in folds for each in fold.inputs), default=LANE_BITS)
    return vectors.lanes(max(widest, LANE_BITS), 1)


def elements_of_register(kernel: LoopKernel, vectors: Vectors) -> int:
    """Return how many elements of a kernel's first pass a register holds, the widest of them."""
    nodes = [node for node in walk(kernel.passes[0].exprs) if node.op not in ("constant", "index")]
    return vectors.lanes(max((node.dtype.bits for node in nodes), default=LANE_BITS), 1)


def widest_in_memory(kernel: LoopKernel) -> int:
    """Return the bits of the widest elements in memory, a word at least."""
    return max(LANE_BITS, *(buffer.dtype.bits for buffer in kernel.buffers))


def lanes_of_row(row: Axis, lanes: int, register: int) -> int:
    """Return the lanes along rows that are folded together: those of short ones are not wasted."""
    while isinstance(row.extent, int) and lanes > max(register, row.extent // 4):
        lanes //= 2
    return lanes


def _fold_size(fold: Reduction) -> int:
    """Return how many ops fold one element."""
    return sum(1 for node in walk(fold.combiner.results) if node.op not in LEAVES)

# SPDX-License-Identifier: Apache-2.0
"""Demands of ops on symbolic sizes: windows and slices inside their operands, no negative sizes.

`slice [0:5]` of `f32[?n]` is valid for n >= 5 only. The verifier refuses programs that are invalid
for every size; the other demands are found here and checked when sizes are known: those of the
entry before anything runs, those of a loop, branch or call each time it is entered, since a branch
may exist just because its ops are not always possible.

Invariant: where all demands hold, no window or slice is larger than its operand, no size of a
result is negative, and no divisor is less than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import GatherAttributes, TopKAttributes
from ingot.hlo.opset.shaping import SliceAttributes
from ingot.support.graphs import reachable
from ingot.support.records import record

Pair = tuple[int | Dim, int | Dim]
"""A number and its required lower bound."""


@record
class Demand:
    """`least <= size`, for the sake of an op."""

    op: Instruction
    least: int | Dim
    size: int | Dim

    @property
    def margin(self) -> int | Dim:
        """A size that must not be negative."""
        return self.size - self.least


def size_demands(module: Module) -> dict[Computation, list[Demand]]:
    """Return the demands that do not hold for every size: of the entry's ops, each once.

    Then those of the computations that loops, branches and calls run, without the entry's.
    """
    known = _demands(module.entry)
    found = {module.entry: list(known.values())}
    for computation in _regions(module.entry):
        inner = [d for margin, d in _demands(computation).items() if margin not in known]
        if inner:
            found[computation] = inner
    return found


def _regions(entry: Computation) -> Iterator[Computation]:
    """Return the computations of loops, branches and calls, outer ones first."""

    def run_by(computation: Computation) -> list[Computation]:
        ops = [one for one in computation.calls_and_effects if one.opcode in _RUN]
        return [called for op in ops for called in op.called_computations]

    return islice(reachable([entry], run_by), 1, None)


def _demands(computation: Computation) -> dict[int | Dim, Demand]:
    found: dict[int | Dim, Demand] = {}
    ops = list(_ops(computation))
    # The demands on an op's operands, then those that make the sizes of results valid.
    asked = [(op, _RULES[op.opcode]) for op in ops if op.opcode in _RULES]
    asked += [(op, _result_pairs) for op in ops if not op.shape.is_static]
    for op, rule in asked:
        for least, size in rule(op):
            demand = Demand(op, least, size)
            if isinstance(demand.margin, Dim) and not dim.never_negative(demand.margin):
                found.setdefault(demand.margin, demand)
    return found


def _result_pairs(op: Instruction) -> Iterator[Pair]:
    if op.opcode in _WITHOUT_ARRAYS:
        return
    for _, shape in op.shape.leaves():
        for size in shape.dims:
            yield from ((1, divisor) for divisor in dim.divisors(size))
            yield 0, size


def _ops(computation: Computation) -> Iterator[Instruction]:
    for instruction in computation.instructions:
        if instruction.opcode == "fusion":
            yield from instruction.attributes.calls.instructions
        else:
            yield instruction


def _slice(op: Instruction) -> Iterator[Pair]:
    given = op.as_(SliceAttributes)
    for (start, limit, _), size in zip(given.slice, op.operands[0].shape.dims, strict=True):
        yield start, limit
        yield limit, size


def _window(op: Instruction) -> Iterator[Pair]:
    yield from zip(op.shape.dims, op.operands[0].shape.dims, strict=True)


def _update(op: Instruction) -> Iterator[Pair]:
    yield from zip(op.operands[1].shape.dims, op.operands[0].shape.dims, strict=True)


def _gather(op: Instruction) -> Iterator[Pair]:
    given = op.as_(GatherAttributes)
    for pair in zip(given.slice_sizes, op.operands[0].shape.dims, strict=True):
        # An empty operand is valid if there are no indices either.
        if pair[0] != 1:
            yield pair


def _topk(op: Instruction) -> Iterator[Pair]:
    given = op.as_(TopKAttributes)
    yield given.k, op.operands[0].shape.dims[-1]


_RUN = ops_with(RegionKind.BRANCH, RegionKind.CALL)
"""Ops whose computations the host program runs."""

_WITHOUT_ARRAYS = ops_with(Trait.LEAF, Trait.TUPLE)
"""Ops that make no array: the sizes of their results are those of other values."""

_RULES: dict[str, Callable[[Instruction], Iterator[Pair]]] = {
    "dynamic-slice": _window,
    "dynamic-update-slice": _update,
    "gather": _gather,
    "slice": _slice,
    "topk": _topk,
}

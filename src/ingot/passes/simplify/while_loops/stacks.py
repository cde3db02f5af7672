# SPDX-License-Identifier: Apache-2.0
"""while-loop-stack-motion: stacks that are known without the loop that fills them.

A loop that records its trips for its gradient puts a row into an array in each trip. For some
arrays all rows are known beforehand: the same value in each (a weight), the rows of another array
in their order, or the number of the trip. They are made after the loop, without it.

TensorFlow's loops push every value that the gradient reads, the weights of a recurrent layer among
them: an array of a copy for each trip, which the loop of the gradient then reads row by row.

Source: ours. XLA has no such pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pattern import splat_of
from ingot.passes.simplify.while_loops.rows import Row, Trips, row_of, trips_of, whole
from ingot.passes.simplify.while_loops.state import (
    copy_before,
    invariants,
    loop_pass,
    replace_loop,
    sole_reader,
    widened,
)
from ingot.support.records import record


@loop_pass("while-loop-stack-motion")
def while_loop_stack_motion(loop: Instruction, module: Module, context: PassContext) -> bool:
    """Makes arrays that a loop fills with known rows after the loop."""
    trips = trips_of(loop)
    if trips is None:
        return False
    body: Computation = loop.attributes.body
    invariant = invariants(body)
    found: dict[int, tuple[_Stack, _Known]] = {}
    for number in range(len(body.root.operands)):
        stack = _stack(loop, number, trips)
        if stack is None:
            continue
        row = row_of(stack.row, invariant)
        if row is not None and row.index is stack.index and row.count == trips.count:
            found[number] = stack, row
        elif stack.row in invariant:
            found[number] = stack, None
        elif (numbers := _numbers(stack, trips)) is not None:
            found[number] = stack, numbers
    if not found:
        return False
    read = [known.array for _, known in found.values() if isinstance(known, Row)]
    read += [stack.row for stack, known in found.values() if known is None]
    copies = copy_before(loop, read)
    results = {
        number: _made(Builder(loop.computation, stack.row.metadata), stack, known, copies)
        for number, (stack, known) in found.items()
    }
    wide = widened(loop, (), module)
    wide.keep_unchanged(results)
    replace_loop(loop, wide.loop, results)
    return True


@record
class _Stack:
    """An element of the state of which each trip fills a row.

    Attributes:
        number: which element it is.
        dims: its dimensions; the rows lie along the first one.
        row: the row that a trip stores, `[1, ...]`.
        index: where.
    """

    number: int
    dims: tuple[int, ...]
    row: Instruction
    index: Instruction


_Known: TypeAlias = Row | tuple[int, int] | None
"""The rows of a stack: rows of an array, (factor, offset) of numbers, or one value."""


def _stack(loop: Instruction, number: int, trips: Trips) -> _Stack | None:
    """Return the element of a loop's state as a stack, if each trip fills one row of it."""
    body: Computation = loop.attributes.body
    result = body.root.operands[number]
    is_only = result.opcode == "dynamic-update-slice" and result.use_count == 1
    if not is_only or result.control_predecessors or not result.shape.is_static:
        return None
    stack, row, *starts = result.operands
    dims = result.shape.static_dims
    if sole_reader(loop, number) is not stack or stack.use_count != 1:
        return None
    is_row = dims[0] == trips.count and row.shape.static_dims == (1, *dims[1:])
    if not is_row or any(splat_of(start) != 0 for start in starts[1:]):
        return None
    if not trips.visits_each(starts[0]):
        return None
    return _Stack(number, dims, row, starts[0])


def _numbers(stack: _Stack, trips: Trips) -> tuple[int, int] | None:
    """Return (factor, offset) of a stack of integers that are `factor * index + offset`."""
    if len(stack.dims) != 1 or not stack.row.shape.dtype.is_integer:
        return None
    value, index = trips.affine(stack.row), trips.affine(stack.index)
    if value is None or index is None:
        return None
    # The trip that stores at index i is (i - offset) * factor, as the factor of indices is 1 or -1.
    factor = value[0] * index[0]
    return factor, value[1] - factor * index[1]


def _made(
    build: Builder, stack: _Stack, known: _Known, copies: Mapping[Instruction, Instruction]
) -> Instruction:
    """Return a whole stack; `copies`: the loop's invariants, copied in front of it."""
    if isinstance(known, Row):
        return build.reshape_to(whole(build, known, copies[known.array]), stack.dims)
    if known is None:
        value = build.reshape_to(copies[stack.row], stack.dims[1:])
        return build.broadcast_to(value, stack.dims)
    shape = stack.row.shape.with_dims(stack.dims)
    factor, offset = (build.full(number, shape) for number in known)
    return build.add(build.multiply(build.iota(shape=shape, iota_dimension=0), factor), offset)

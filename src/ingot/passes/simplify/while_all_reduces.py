# SPDX-License-Identifier: Apache-2.0
"""while-loop-all-reduce-code-motion: sums of a loop are reduced over devices once, after it.

`sum = sum + all-reduce(x)` in a loop adds up `x` alone, and its last value is summed over the
devices. So devices meet once for gradients that a loop accumulates over parts of a batch, not once
for each part. Between the all-reduce and the addition may be ops that are linear in the sum:
reshapes, transposes, products with values that the loop does not change.

Source: xla/service/while_loop_all_reduce_code_motion.cc.
"""

from __future__ import annotations

from collections.abc import Container

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.all_reduces import reduction_of
from ingot.passes.simplify.while_rows import trips_of
from ingot.passes.simplify.while_state import (
    MOVES,
    LoopPass,
    added_to,
    copy_before,
    invariants,
    replace_loop,
    widened,
)
from ingot.support.records import record


@record
class WhileLoopAllReduceCodeMotion(LoopPass):
    """Moves all-reduces of summands of a loop behind it."""

    name = "while-loop-all-reduce-code-motion"

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Move the all-reduces of a loop that runs more than once."""
        body = loop.attributes.body
        if all(one.opcode != "all-reduce" for one in body.calls_and_effects):
            return False
        trips = trips_of(loop)
        if trips is not None and trips.count < 2:
            return False
        constant = invariants(body)
        numbers = range(len(loop.shape.elements))
        sums = (_sum_of(loop, number, constant, context) for number in numbers)
        found = [one for one in sums if one is not None]
        if found:
            _move(loop, found, constant, module)
        return bool(found)


@record
class _Sum:
    """An element of the state to which each trip adds a sum over devices.

    Attributes:
        number: which element it is.
        reduced: the all-reduce.
        between: the ops from it to the addition, the first one first.
    """

    number: int
    reduced: Instruction
    between: tuple[Instruction, ...]


def _sum_of(
    loop: Instruction, number: int, constant: Container[Instruction], context: PassContext
) -> _Sum | None:
    added = added_to(loop, number)
    if added is None:
        return None
    between: list[Instruction] = []
    while (added.opcode in MOVES or added.opcode == "multiply") and _is_used_once(added):
        inner = [operand for operand in added.operands if operand not in constant]
        if len(inner) != 1:
            return None
        between.append(added)
        (added,) = inner
    if added.opcode != "all-reduce" or not _is_used_once(added) or not added.shape.is_static:
        return None
    is_exact = added.shape.dtype.is_integer or context.fp >= Fp.CONTRACT
    is_sum = reduction_of(added) == "add"
    return _Sum(number, added, tuple(reversed(between))) if is_sum and is_exact else None


def _is_used_once(one: Instruction) -> bool:
    return not one.is_ordered and one.use_count == 1


def _move(
    loop: Instruction, found: list[_Sum], constant: Container[Instruction], module: Module
) -> None:
    caller, first = loop.computation, loop.operands[0].operands
    build = Builder(caller, loop.metadata)
    others = [o for item in found for step in item.between for o in step.operands if o in constant]
    copies = copy_before(loop, others)
    made = widened(loop, [build.full(0, item.reduced.shape) for item in found], module)
    inside, root, count = Builder(made.body, loop.metadata), made.body.root, len(first)
    results: dict[int, Instruction] = {}
    for number, (item, total) in enumerate(zip(found, made.added, strict=True)):
        value = made.copies[item.reduced.operands[0]]
        made.body.replace_operand(root, count + number, inside.add(total, value))
        last = build.get_tuple_element(made.loop, index=count + number)
        value, before = caller.copy_of(item.reduced, [last]), item.reduced
        for step in item.between:
            operands = [value if one is before else copies[one] for one in step.operands]
            value, before = caller.copy_of(step, operands), step
        results[item.number] = build.add(first[item.number], value)
    old = [made.body.root.operands[item.number] for item in found]
    made.keep_unchanged(results)
    for item, dead in zip(found, old, strict=True):
        for one in (dead, *(made.copies[one] for one in (*reversed(item.between), item.reduced))):
            made.body.remove(one)
    replace_loop(loop, made.loop, results)

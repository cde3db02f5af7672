# SPDX-License-Identifier: Apache-2.0
"""All-reduces: fewer, larger ones, and later.

`all-reduce-combiner` makes one of small all-reduces that do not depend on each other. Devices meet
once for all of them, which takes longer than to copy their operands. The arrays lie one after the
other in the operand of the one all-reduce. Every element is folded as before.

`all-reduce-code-motion` moves transposes and sums of what devices have summed up before that:

    transpose(all-reduce(x))          => all-reduce(transpose(x))
    all-reduce(x) + all-reduce(y)     => all-reduce(x + y)

The kernel that makes x writes it in any order, and the update of a weight that follows is then
computed in place. A sum of two parts of a gradient (of a weight that a program uses twice) is sent
once.

`while-loop-all-reduce-code-motion` reduces sums of a loop over devices once, after it.
`sum = sum + all-reduce(x)` in a loop adds up `x` alone, and its last value is summed over the
devices. So devices meet once for gradients that a loop accumulates over parts of a batch, not once
for each part. Between the all-reduce and the addition may be ops that are linear in the sum:
reshapes, transposes, products with values that the loop does not change.

Source: xla/service/collectives/all_reduce_combiner.cc, whose all-reduce has several operands;
all_reduce_reassociate.cc, xla/service/while_loop_all_reduce_code_motion.cc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from math import prod

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.simplify.while_loops.rows import trips_of
from ingot.passes.simplify.while_loops.state import (
    MOVES,
    added_to,
    copy_before,
    invariants,
    loop_pass,
    replace_loop,
    widened,
)
from ingot.semantics.reducers import reducer_opcode
from ingot.support.records import record

SMALL = 1 << 16
"""Bytes of an operand up to which it is combined: two devices of a process meet in 20 us, in which
a core copies 64 KB there and back several times."""
MOST = 1 << 20
"""Bytes of all operands of one all-reduce, at most: they lie in memory until the last is known."""


@module_pass("all-reduce-combiner", "all-reduce")
def all_reduce_combiner(module: Module, context: PassContext) -> bool:
    """Combines small all-reduces, one kind after the other."""
    changed = False
    for computation in module.post_order():
        kinds: defaultdict[object, set[Instruction]] = defaultdict(set)
        for op in computation.calls_and_effects:
            if _is_small(op):
                kinds[all_reduce_kind(op)].add(op)
        # Dependencies are looked up for each kind, because combining one kind changes them.
        for ops in kinds.values():
            for group in _independent(computation, ops) if len(ops) > 1 else ():
                changed = _combine(group) or changed
    return changed


def _is_small(op: Instruction) -> bool:
    if op.opcode != "all-reduce" or op.is_ordered:
        return False
    is_known = op.shape.is_array and isinstance(op.shape.bytes, int)
    return is_known and _bytes(op) <= SMALL and bool(reduction_of(op))


def _bytes(op: Instruction) -> int:
    return prod(op.shape.static_dims) * op.shape.dtype.bytes


def reduction_of(op: Instruction) -> str:
    """Return the opcode by which an all-reduce combines elements; "" if it is no single op."""
    return reducer_opcode(op.attributes.to_apply)


def all_reduce_kind(op: Instruction) -> object:
    """Return a key that is equal for all-reduces that may become one."""
    given = op.attributes
    is_in_channel = given.channel_id is not None
    return (
        *(op.shape.dtype, reduction_of(op), given.replica_groups, given.mode, is_in_channel),
        given.use_global_device_ids,
    )


def _independent(computation: Computation, ops: set[Instruction]) -> Iterable[list[Instruction]]:
    """Return ops in groups in which none depends on another one.

    Ops of one group have as many of the ops before them, on the longest way.
    """
    before: dict[Instruction, int] = {}
    groups: defaultdict[int, list[Instruction]] = defaultdict(list)
    for instruction in computation.post_order():
        earlier = (*instruction.operands, *instruction.control_predecessors)
        count = max((before[one] for one in earlier), default=0)
        if instruction in ops:
            groups[count].append(instruction)
            count += 1
        before[instruction] = count
    return groups.values()


def _combine(group: list[Instruction]) -> bool:
    """Combine the ops of a group, up to the limit of one op; return whether it changed any."""
    chosen: list[Instruction] = []
    total, changed = 0, False
    for op in group:
        if total + _bytes(op) > MOST:
            changed = _join(chosen) or changed
            chosen, total = [], 0
        chosen.append(op)
        total += _bytes(op)
    return _join(chosen) or changed


def _join(ops: list[Instruction]) -> bool:
    if len(ops) <= 1:
        return False
    first, computation = ops[0], ops[0].computation
    build = Builder(computation, first.metadata)
    rows = [build.reshape_to(op.operands[0], (prod(op.shape.static_dims),)) for op in ops]
    whole = build.concatenate(*rows, dimensions=(0,))
    summed = computation.add("all-reduce", (whole,), first.attributes, metadata=first.metadata)
    start = 0
    for op, row in zip(ops, rows, strict=True):
        (size,) = row.shape.static_dims
        part = build.slice(summed, slice=((start, start + size, 1),))
        computation.replace_all_uses(op, build.reshape_to(part, op.shape.dims))
        computation.remove(op)
        start += size
    return True


@module_pass("all-reduce-code-motion", "all-reduce")
def all_reduce_code_motion(module: Module, context: PassContext) -> bool:
    """Moves transposes and sums of all-reduces to their operands."""
    changed = False
    for computation in module.post_order():
        if all(op.opcode != "all-reduce" for op in computation.calls_and_effects):
            continue
        order = computation.post_order()
        number = {op: n for n, op in enumerate(order)}
        for op in order:
            if op.opcode == "transpose":
                changed = _move_transpose(op) or changed
            elif op.opcode == "add" and context.fp >= Fp.CONTRACT:
                changed = _move_sum(op, number) or changed
    return changed


def _move_transpose(transpose: Instruction) -> bool:
    summed = transpose.operands[0]
    source = summed.operands[0] if _is_free(summed) else None
    if source is None or not source.operands or len(source.users) > 1:
        return False
    build = Builder(summed.computation, summed.metadata)
    order = transpose.as_(DimensionsAttributes).dimensions
    _replace(transpose, summed, build.transpose(source, dimensions=order))
    return True


def _move_sum(add: Instruction, number: Mapping[Instruction, int]) -> bool:
    left, right = add.operands
    is_one = left is not right and all(map(_is_free, add.operands))
    if not is_one or all_reduce_kind(left) != all_reduce_kind(right):
        return False
    if reduction_of(left) != "add":
        return False
    first, last = sorted(add.operands, key=lambda op: number[op])
    build = Builder(last.computation, last.metadata)
    _replace(add, last, build.add(left.operands[0], right.operands[0]))
    first.computation.remove(first)
    return True


def _is_free(op: Instruction) -> bool:
    """Whether an op is an all-reduce of one array that one op uses and no other op waits for."""
    if op.opcode != "all-reduce" or not op.shape.is_array or len(op.users) > 1 or op.is_root:
        return False
    return not (op.is_ordered or op.attributes.constrain_layout)


def _replace(op: Instruction, summed: Instruction, operand: Instruction) -> None:
    """Replace an op by the all-reduce that it used, which takes another operand.

    The all-reduce stays where it is among the others: devices meet in the order of the program, and
    a gradient that is known early is not to wait for the others.
    """
    computation = op.computation
    computation.replace_operand(summed, 0, operand)
    computation.set_shape(summed, operand.shape)
    computation.replace(op, summed)


@loop_pass("while-loop-all-reduce-code-motion")
def while_loop_all_reduce_code_motion(
    loop: Instruction, module: Module, context: PassContext
) -> bool:
    """Moves all-reduces of summands of a loop behind it."""
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

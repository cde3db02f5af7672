# SPDX-License-Identifier: Apache-2.0
"""all-reduce-code-motion: transposes and sums of what devices have summed up move before that.

    transpose(all-reduce(x))          => all-reduce(transpose(x))
    all-reduce(x) + all-reduce(y)     => all-reduce(x + y)

The kernel that makes x writes it in any order, and the update of a weight that follows is then
computed in place. A sum of two parts of a gradient (of a weight that a program uses twice) is sent
once.

Source of the second: xla/service/collectives/all_reduce_reassociate.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.all_reduces import all_reduce_kind, reduction_of
from ingot.support.records import record


@record
class AllReduceCodeMotion(Pass):
    """Moves transposes and sums of all-reduces to their operands."""

    name = "all-reduce-code-motion"
    concerns = frozenset({"all-reduce"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit every reachable computation, from operands to users."""
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

# SPDX-License-Identifier: Apache-2.0
"""Transposes move behind elementwise ops, towards what cancels them.

A convolution wants its channels last, and gets transposes on each side where a front end has them
first. Each op between two convolutions (bias, normalization, activation, residual) may be the
result of a kernel, in memory: its layout there should be the one that convolutions read. So the
first transpose is moved behind the ops that follow it until it meets the second one, a reduction
that takes it in, or a result.

    f(transpose(x), transpose(y), broadcast(z)) => transpose(f(x, y, broadcast(transpose(z))))

It is a pass and no rule, because a transpose with other users stays, and the new one is one more.
It costs nothing if the op was read in that order anyway: a kernel reads its operands or writes its
result through any transpose.

Invariant: elements are computed by the same ops; no value is computed twice.
Source: the idea is XLA's ReshapeMover (xla/hlo/transforms/simplifiers/reshape_mover.cc).
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.support.records import record


@record
class TransposeMover(Pass):
    """Moves transposes of the operands of elementwise ops to their results."""

    name = "transpose-mover"
    concerns = frozenset({"transpose"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite every reachable computation, from operands to users."""
        changed = False
        for computation in module.post_order():
            for item in computation.post_order():
                order = _common_order(item)
                if order is not None and not item.control_predecessors:
                    computation.replace(item, _moved(item, order))
                    changed = True
        return changed


def _common_order(op: Instruction) -> tuple[int, ...] | None:
    """Return the order in which all operands of an elementwise op are transposed.

    Broadcasts and scalars can have any. None if they have none, or several.
    """
    if not op.has(Trait.ELEMENTWISE) or not op.shape.is_array:
        return None
    orders: set[tuple[int, ...]] = set()
    for operand in op.operands:
        if operand.opcode == "transpose":
            orders.add(operand.as_(DimensionsAttributes).dimensions)
        elif operand.opcode != "broadcast" and operand.shape.rank:
            return None
    return orders.pop() if len(orders) == 1 else None


def _moved(op: Instruction, order: tuple[int, ...]) -> Instruction:
    """Return the transpose of the op, on the sources of its operands."""
    build = Builder(op.computation, op.metadata)
    sizes = [op.shape.dims[order.index(number)] for number in range(len(order))]
    shape = op.shape.with_dims(tuple(sizes))

    def source(operand: Instruction) -> Instruction:
        if operand.opcode == "transpose":
            return operand.operands[0]
        if not operand.shape.rank:
            return operand
        # A broadcast has its dimension numbers in order: its operand is transposed.
        dims = [order[dim] for dim in operand.as_(DimensionsAttributes).dimensions]
        permutation = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        value = operand.operands[0]
        if permutation != tuple(range(len(dims))):
            value = build.transpose(value, dimensions=permutation)
        return build.broadcast_to(value, shape.dims, tuple(sorted(dims)))

    made = op.computation.add(
        op.opcode,
        tuple(map(source, op.operands)),
        op.attributes,
        shape=shape,
        name=op.name,
        metadata=op.metadata,
    )
    return build.transpose(made, dimensions=order)

# SPDX-License-Identifier: Apache-2.0
"""Slices and pads of several dimensions become one of each dimension, divided ones first.

So each moves elements along one dimension (`movement`), and those along dimensions that are not
divided work on parts. `pad(u, 1)[2:, 1:-1]` is a chain of ops on boxes:

    slice(pad(u))  =>  slice_b(pad_b(slice_a(pad_a(u)))), a divided
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.passes.spmd.along import padded, sliced
from ingot.passes.spmd.annotations import Known, replace_value
from ingot.passes.spmd.runs import is_box, is_movement, moved_axes


def split_boxes(computation: Computation, known: Known) -> None:
    """Split the chains of slices and pads of arrays that are known to be divided."""
    for op in computation.post_order():
        if op.parent is None or not is_box(op):
            continue
        if op.users and all(map(is_movement, op.users)):
            continue  # It will be in their chains.
        chain = _chain(op, known)
        sharding = known.of(chain[0].operands[0])
        axes = [
            axis for axis in range(op.shape.rank) if any(axis in moved_axes(one) for one in chain)
        ]
        divided = [axis for axis in axes if sharding is not None and sharding.tiles[axis] > 1]
        if not divided or len(axes) == 1:
            continue
        made = chain[0].operands[0]
        for axis in (*divided, *(axis for axis in axes if axis not in divided)):
            for one in chain:
                made = _along(one, made, axis) if axis in moved_axes(one) else made
        if "sharding" in op.extra:
            made.extra["sharding"] = op.extra["sharding"]
        replace_value(op, made)


def _chain(op: Instruction, known: Known) -> list[Instruction]:
    """Return slices and pads, from the first to `op`, each of which is the operand of the next."""
    chain = [op]
    fill = op.operands[1] if op.opcode == "pad" else None
    while chain[0].operands[0] not in known and is_box(chain[0].operands[0]):
        before = chain[0].operands[0]
        if before.opcode == "pad":
            # At a corner, pads along one dimension after the other have the last one's value.
            if fill is not None and fill is not before.operands[1]:
                break
            fill = before.operands[1]
        chain.insert(0, before)
    return chain


def _along(op: Instruction, value: Instruction, axis: int) -> Instruction:
    """Return the slice or pad of `value` that `op` is along one dimension."""
    build = RuleBuilder(op.computation, op.metadata)
    if op.opcode == "pad":
        return padded(build, value, axis, op.attributes.padding[axis], op.operands[1])
    return sliced(build, value, axis, op.attributes.slice[axis])

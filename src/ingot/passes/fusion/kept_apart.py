# SPDX-License-Identifier: Apache-2.0
"""Producers that are kept in a kernel of their own, as their consumer would read them slowly.

Late reads are what an update's value reads of the array that is updated in place. A kernel that
updates an array in place must not read other elements of it, which it may have written. What reads
them then runs before, each reader in a kernel of its own. A stencil has several such readers, and
it is faster to compute its value before the update, in one kernel that reads the array directly: 50
steps of a 5-point stencil of 301x303 f32 took 3.0 ms with four copies and 1.2 with one (AVX2, one
thread, 2026-11-28).

Operands without strides are transposes that a reshape makes into operands whose elements lie at no
constant steps. Fused into a contraction, `reshape(transpose(x))` would be read at quotients and
remainders of the operand's indices, each element many times. Outside, the transpose is one quick
kernel, or the order in which the kernel that computes `x` writes it, and the reshape is free.

A dimension has no stride only if the reshape makes it of several dimensions that the transpose
took from dimensions of its operand that are not neighbours.

Windows under masks are what stencils read of an array that is padded, or rolled. Where points have
no loops a kernel is cut into pieces in which every mask is known (`kernel.schedule.pieces`). Loops
of a fold ask masks for each element, so that what reads a window is a kernel of its own, and the
fold reads its result.
"""

from __future__ import annotations

from collections import Counter

from ingot.analysis.common_factors import common_factors
from ingot.analysis.in_place import reads_in_time
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.shape import Shape
from ingot.passes.fusion.groups import Group
from ingot.passes.fusion.recompute import MASKING, STEPS

_COMPUTED = ops_with(FusionClass.ELEMENTWISE, FusionClass.INJECTIVE)
"""Ops that would be computed in the kernel of the update."""

MOST_VALUES = 400
"""Values that are looked at; a kernel has as many instructions at most."""


def copies_more(producer: Instruction, update: Instruction) -> bool:
    """Whether fusing an operand of an update makes larger copies than its own result.

    Args:
        producer: an operand of `update` that is no destination, of any shape and type.
        update: an in-place op.

    Symbolic sizes are not compared: the answer is no.
    """
    if producer not in update.operands or producer.opcode not in _COMPUTED:
        return False
    values = _values(producer, update)
    inside = {update, *values}
    late = [
        value.shape.size
        for value in values
        if any(operand in update.destinations for operand in value.operands)
        and not reads_in_time(value, update, inside)
    ]
    copied = sum(size for size in late if isinstance(size, int))
    return isinstance(producer.shape.size, int) and copied > producer.shape.size


def _values(producer: Instruction, update: Instruction) -> dict[Instruction, None]:
    """Return the producer and what would be computed with it, in the order of a search."""
    found, left = {producer: None}, [producer]
    while left and len(found) < MOST_VALUES:
        for operand in left.pop().operands:
            if operand in found or operand in update.destinations:
                continue
            if operand.opcode in _COMPUTED:
                found[operand] = None
                left.append(operand)
    return found


def breaks_strides(transpose: Instruction, reshape: Instruction, dot: Instruction) -> bool:
    """Whether a dot would read a reshaped transpose at no constant steps.

    Steps between the matrices of a batch may vary: each is computed once.

    Args:
        transpose: an instruction that `reshape` may read.
        reshape: an instruction that `dot` may read.
        dot: the contraction.
    """
    if transpose.opcode != "transpose" or reshape.opcode != "reshape" or dot.opcode != "dot":
        return False
    if reshape.operands[0] is not transpose:
        return False
    attributes = dot.as_(DotAttributes)
    unstrided = unstrided_dims(transpose, reshape.shape)
    sides = zip(dot.operands, (attributes.lhs_batch_dims, attributes.rhs_batch_dims), strict=True)
    return any(operand is reshape and not unstrided <= set(batch) for operand, batch in sides)


def unstrided_dims(transpose: Instruction, reshaped: Shape) -> set[int]:
    """Return which dimensions of a reshaped transpose have no constant step in its operand."""
    if reshaped.size == 0:
        return set()
    order = transpose.as_(DimensionsAttributes).dimensions
    kept = [dim for dim, size in enumerate(transpose.operands[0].shape.dims) if size != 1]
    rank = {dim: number for number, dim in enumerate(kept)}
    found: set[int] = set()
    for before, after in common_factors(transpose.shape.dims, reshaped.dims):
        sources = [rank[order[dim]] for dim in range(*before) if order[dim] in rank]
        if sources and sources != list(range(sources[0], sources[0] + len(sources))):
            found.update(dim for dim in range(*after) if reshaped.dims[dim] != 1)
    return found


LEAST_MASKED = 1 << 13
"""Elements from which on one more kernel takes less time than masks: sums of five-point stencils of
rolled f32 took 2.9, 4.0 and 7.5 times as long in one kernel for 155, 512 and 1024 squared, the same
for 64 squared; of a padded array 1.0, 0.9 and 1.3 times (AVX-512, one thread, 2026-11-28)."""

MOST_SEEN = 64
"""Instructions that are looked at for a window, at most."""

_THROUGH = STEPS | ops_with(Trait.RESHAPE_LIKE, also=("slice",))


def folds_window(group: Group, producer: Instruction) -> bool:
    """Whether a fold of the kernel would compute `producer` from a window under masks."""
    size = producer.shape.size
    is_few = isinstance(size, int) and size < LEAST_MASKED
    if group.grid is None or is_few or not producer.has(Trait.ELEMENTWISE):
        return False
    frame = group.frames.frames.get(producer)
    return frame is not None and not group.grid.issuperset(frame) and _reads_window(producer)


def _reads_window(producer: Instruction) -> bool:
    """Whether a value is computed from one array at several indices, under masks."""
    reads: Counter[Instruction] = Counter()
    seen, stack = {producer}, [producer]
    while stack and len(seen) < MOST_SEEN:
        for operand in stack.pop().operands:
            if operand.opcode in MASKING:
                reads.update(map(_source, operand.operands))
            elif operand not in seen and operand.opcode in _THROUGH:
                seen.add(operand)
                stack.append(operand)
    return any(count > 1 and source.shape.dims for source, count in reads.items())


def _source(part: Instruction) -> Instruction:
    """Return the array that a part of a concatenation is a slice of."""
    return part.operands[0] if part.opcode == "slice" else part

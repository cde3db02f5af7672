# SPDX-License-Identifier: Apache-2.0
"""Windows under masks: what stencils read of an array that is padded, or rolled.

Where points have no loops a kernel is cut into pieces in which every mask is known
(`kernel.schedule.pieces`). Loops of a fold ask masks for each element, so that what reads a window
is a kernel of its own, and the fold reads its result.
"""

from __future__ import annotations

from collections import Counter

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.passes.fusion.groups import Group
from ingot.passes.fusion.recompute import MASKING, STEPS

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

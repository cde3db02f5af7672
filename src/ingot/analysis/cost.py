# SPDX-License-Identifier: Apache-2.0
"""Costs of fused computations: floating-point operations and bytes to and from memory.

Counts are of the program as written (a multiply-add is two operations, a transcendental one, which
is also counted by itself), the way XLA's `HloCostAnalysis` counts. With symbolic sizes they are
expressions.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.support.records import record

_WINDOWED = ops_with(Trait.SUBSET_EXTRACTION)
_IN_PLACE = ops_with(FusionClass.IN_PLACE)


@record
class Cost:
    """Cost of one execution of a computation.

    Attributes:
        flops: arithmetic operations.
        transcendentals: how many of these are exponentials, divisions and the like.
        bytes_read: bytes of operands, each once.
        bytes_written: bytes of results.
    """

    flops: int | Dim
    transcendentals: int | Dim
    bytes_read: int | Dim
    bytes_written: int | Dim


def fusion_cost(fused: Computation) -> Cost:
    """Return the cost of a fused computation."""
    flops: int | Dim = 0
    transcendentals: int | Dim = 0
    for instruction in fused.instructions:
        own = instruction.definition.flops(instruction)
        flops = flops + own
        if instruction.has(Trait.EXPENSIVE):
            transcendentals = transcendentals + own
    read: int | Dim = 0
    for parameter in fused.parameters:
        read = read + _bytes_read(parameter)
    roots = fused.root.operands if fused.root.opcode == "tuple" else (fused.root,)
    written: int | Dim = 0
    for root in roots:
        written = written + _bytes_written(root)
    return Cost(flops, transcendentals, read, written)


def _bytes_read(parameter: Instruction) -> int | Dim:
    """Return the bytes read of a parameter: a window of it where every use takes one."""
    if not parameter.shape.is_array:
        return 0
    total: int | Dim = 0
    for user in parameter.users:
        if user.opcode in _IN_PLACE and user.is_root and user.operands[0] is parameter:
            continue
        if user.opcode not in _WINDOWED or user.operands[0] is not parameter:
            return parameter.shape.bytes
        total = total + user.shape.bytes
    return total


def _bytes_written(root: Instruction) -> int | Dim:
    if root.opcode == "dynamic-update-slice":
        return root.operands[1].shape.bytes
    if root.opcode == "scatter":
        return root.operands[-1].shape.bytes
    return root.shape.bytes

# SPDX-License-Identifier: Apache-2.0
"""What schedules must know of a target: the one place where a `TargetSpec` becomes `Vectors`."""

from __future__ import annotations

from functools import cache

from ingot.kernel.schedule.lane_counts import Vectors
from ingot.llvm.target import TargetSpec


@cache
def vectors_of(target: TargetSpec) -> Vectors:
    """Return what schedules must know of a target."""
    return Vectors(
        target.vector_bits,
        target.num_vector_registers,
        has_bf16_pairs=target.has_bf16_pairs,
        has_byte_quads=target.has_byte_quads,
    )

# SPDX-License-Identifier: Apache-2.0
"""Arrays that are computed once and lie in memory: `held(b, x)` gives x to what uses it.

The compiler would compute them again in each kernel that reads them, which is right for most; a
rule holds what it knows to be read in a way that makes that slow.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.instruction import Instruction


def held(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return x behind a barrier, through which nothing is fused."""
    return b.element_of(b.emit("opt-barrier", b.tuple(x)), 0)

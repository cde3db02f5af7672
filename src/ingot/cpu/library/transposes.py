# SPDX-License-Identifier: Apache-2.0
"""Square transposes as library code: `emit.values.squares` for the common element types.

Called by kernels that read across their vector axis; it is no kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.template import template_of
from ingot.cpu.library.parts import LibraryPart, library_part
from ingot.emit.values.squares import SquareTranspose
from ingot.kernel.schedule.tiles import LANE_BITS
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32


def common_transposes(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what transposes of f32 need."""
    side = Vectors.of(target).lanes(LANE_BITS, 1)
    if side > 1:
        yield library_part(target, template_of(SquareTranspose(F32, side)))

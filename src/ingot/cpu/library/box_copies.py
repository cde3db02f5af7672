# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes in library code: one function for every kernel that only copies and fills.

A strategy of loop kernels: those of `kernel.generic.box_copies`. Invariant: a table of the kernel's
lists the copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.loop.box_copies import BOX_COPIES, call_of
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.kernel.generic.box_copies import MIN_BITS, box_copies
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec


def match_box_copies(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that is nothing but copies of boxes."""
    kernel = request.loop_kernel
    copies = box_copies(kernel, request.loops.schedule, request.vectors)
    if isinstance(copies, str):
        return copies
    return LibraryKernel(
        call_of(copies, len(kernel.buffers)), tuple(common_box_copies(request.target))
    )


def common_box_copies(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what copies of boxes need."""
    if Vectors.of(target).bits >= MIN_BITS:
        yield library_part(target, BOX_COPIES)

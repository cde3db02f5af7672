# SPDX-License-Identifier: Apache-2.0
"""Moves of boxes in library code: one function for every kernel that only copies and fills.

Makes kernels of `kernel.forms.moves`. Invariant: what it moves is in a table of the kernel's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.loop.moves import MovesCode, call_of
from ingot.cpu.library.drivers import shared_code
from ingot.cpu.library.parts import LibraryKernel, Shared
from ingot.cpu.vectors import vectors_of
from ingot.kernel.forms.moves import MIN_BITS, moves_of
from ingot.kernel.ir import LoopKernel
from ingot.llvm.target import TargetSpec


def moves_kernel(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library runs a loop kernel, if it is nothing but moves."""
    moves = moves_of(kernel, vectors_of(target))
    if moves is None:
        return None
    return LibraryKernel(call_of(moves, len(kernel.buffers)), tuple(common_moves(target)))


def common_moves(target: TargetSpec) -> Iterator[Shared]:
    """Load what moves need."""
    if vectors_of(target).bits >= MIN_BITS:
        yield shared_code(target, MovesCode())

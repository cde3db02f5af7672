# SPDX-License-Identifier: Apache-2.0
"""Moves of boxes in library code: one function for every kernel that only copies and fills.

A strategy of loop kernels: those of `kernel.forms.moves`. Invariant: what it moves is in a table of
the kernel's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.loop.moves import MOVES, call_of
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.cpu.vectors import vectors_of
from ingot.kernel.forms.moves import MIN_BITS, moves_of
from ingot.llvm.target import TargetSpec


def match_moves(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that is nothing but moves."""
    kernel = request.loop_kernel
    moves = moves_of(kernel, request.loops.schedule, request.vectors)
    if isinstance(moves, str):
        return moves
    return LibraryKernel(call_of(moves, len(kernel.buffers)), tuple(common_moves(request.target)))


def common_moves(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what moves need."""
    if vectors_of(target).bits >= MIN_BITS:
        yield library_part(target, MOVES)

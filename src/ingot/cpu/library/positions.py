# SPDX-License-Identifier: Apache-2.0
"""Positions in library code: what `iota` writes, at every size.

Makes kernels of `kernel.forms.positions`. Invariant: extents and the schedule's numbers are in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.library.form_kernels import form_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared
from ingot.cpu.vectors import vectors_of
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.positions import positions_form
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.llvm.target import TargetSpec

COMMON = (((1 << 20,), 0), ((1024, 1024), 1), ((1024, 1024), 0))
"""Common shapes and the dimension whose positions are written."""


def positions_kernel(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library runs a loop kernel, if it writes positions."""
    form = positions_form(kernel, vectors_of(target))
    return None if form is None else form_kernel(target, "positions", form)


def common_positions(target: TargetSpec) -> Iterator[Shared]:
    """Load what positions in s32 need."""
    for dims, dimension in COMMON:
        build = Builder("positions")
        root = build.iota(shape=Shape.array(S32, dims), iota_dimension=dimension)
        found = positions_kernel(target, collapse(build_loop_kernel(build.build(root))))
        assert found is not None, "it is what is recognized"
        yield from found.parts

# SPDX-License-Identifier: Apache-2.0
"""Positions in library code: what `iota` writes, at every size.

A strategy of loop kernels: those of `kernel.forms.iota`. Invariant: extents and the schedule's
numbers are in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.library.form_kernels import form_kernel
from ingot.cpu.library.parts import LibraryKernel, LibraryPart
from ingot.cpu.strategies.request import Request
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.iota import iota_form
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.llvm.target import TargetSpec

COMMON = (((1 << 20,), 0), ((1024, 1024), 1), ((1024, 1024), 0))
"""Common shapes and the dimension whose positions are written."""


def match_iota(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that writes positions."""
    form = iota_form(request.loop_kernel, request.loops.schedule)
    return form if isinstance(form, str) else form_kernel(request.target, "iota", form)


def common_iotas(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what positions in s32 need."""
    for dims, dimension in COMMON:
        build = Builder("positions")
        root = build.iota(shape=Shape.array(S32, dims), iota_dimension=dimension)
        kernel = collapse(build_loop_kernel(build.build(root)))
        found = match_iota(Request(kernel, target))
        assert not isinstance(found, str), "the sample is recognized"
        yield from found.parts

# SPDX-License-Identifier: Apache-2.0
"""Plain gathers and scatters in library code: sums by segment, counts, elements by index.

A strategy of loop kernels: those of `kernel.forms.plain_indexing`. Invariant: extents, steps and
lengths are in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.library.form_kernels import form_kernel
from ingot.cpu.library.parts import LibraryKernel, LibraryPart
from ingot.cpu.strategies.request import Request
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import F32, S32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.plain_indexing import plain_indexing
from ingot.kernel.loop.update import build_update_kernel
from ingot.llvm.target import TargetSpec

COMMON = ((), (16,))
"""What is summed by segment: numbers, and rows of a vector."""


def match_indexing(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that is a plain gather or scatter."""
    kernel = request.loop_kernel
    plain = plain_indexing(kernel, request.loops.schedule)
    if isinstance(plain, str):
        return plain
    return form_kernel(request.target, "update" if kernel.serial else "gather", plain)


def common_indexing(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sums of f32 by segments in s32 need."""
    for row in COMMON:
        build = Builder("segments")
        sums = build.parameter(0, Shape.array(F32, (1000, *row)))
        segments = build.parameter(1, Shape.array(S32, (1 << 16, 1)))
        numbers = build.parameter(2, Shape.array(F32, (1 << 16, *row)))
        root = build.scatter(
            sums,
            segments,
            numbers,
            update_window_dims=tuple(range(1, 1 + len(row))),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            to_apply=scalar_computation("add", F32),
        )
        found = match_indexing(Request(build_update_kernel(build.build(root)), target))
        assert not isinstance(found, str), "the sample is recognized"
        yield from found.parts

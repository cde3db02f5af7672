# SPDX-License-Identifier: Apache-2.0
"""Plain gathers and scatters in library code: sums by segment, counts, elements by index.

Makes kernels of `kernel.forms.plain_places`. Invariant: extents, steps and lengths are in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.library.form_kernels import form_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared
from ingot.cpu.vectors import vectors_of
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import F32, S32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.plain_places import plain_places
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.update import build_update_kernel
from ingot.llvm.target import TargetSpec

COMMON = ((), (16,))
"""What is summed by segment: numbers, and rows of a vector."""


def places_kernel(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library runs a loop kernel, if it is a plain gather or scatter."""
    plain = plain_places(kernel, vectors_of(target))
    kind = "update" if kernel.serial else "gather"
    return None if plain is None else form_kernel(target, kind, plain)


def common_places(target: TargetSpec) -> Iterator[Shared]:
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
        found = places_kernel(target, build_update_kernel(build.build(root)))
        assert found is not None, "it is what is recognized"
        yield from found.parts

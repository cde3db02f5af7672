# SPDX-License-Identifier: Apache-2.0
"""The strategy of selections (top-k): code of the library for every size.

The code depends on the element type alone. Invariant: what depends on sizes is in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase
from ingot.cpu.emit.sort.selection_vectors import Selection
from ingot.cpu.emit.sort.topk import BYTES, selection_template
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.hlo.dtype import F32
from ingot.kernel.ir import TopKKernel
from ingot.kernel.sort.topk import schedule_topk
from ingot.llvm.target import TargetSpec


def match_selection(request: Request) -> LibraryKernel:
    """Return how the library runs a selection."""
    kernel = request.kernel_as(TopKKernel)
    of = Selection(kernel.buffers[0].dtype, kernel.largest)
    code = library_part(request.target, selection_template(of))
    schedule = schedule_topk(kernel)
    areas = schedule.chunks * schedule.parts
    phases = (Phase(f"{code.name}_whole", schedule.chunks),)
    if schedule.part:
        phases = (Phase(f"{code.name}_part", areas), Phase(f"{code.name}_joined", schedule.chunks))
    emitted = EmittedKernel(
        phases,
        len(kernel.buffers),
        code.template.given(*schedule.parameters(kernel)),
        areas * schedule.area * BYTES,
    )
    return LibraryKernel(emitted, (code,))


def common_selections(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what selections in f32 need."""
    yield library_part(target, selection_template(Selection(F32, largest=True)))

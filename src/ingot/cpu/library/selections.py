# SPDX-License-Identifier: Apache-2.0
"""Selections (top-k) in library code: of every size and every k, one variant per element type.

The strategy of `kernel.ir.TopKKernel`. Invariant: what depends on sizes is in env.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase
from ingot.cpu.emit.sort.topk import BYTES, SelectionVariant, emit_selection
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.hlo.dtype import F32
from ingot.kernel.ir import TopKKernel
from ingot.kernel.sort.topk import PARAMETERS, schedule_topk
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec


def match_selection(request: Request) -> LibraryKernel:
    """Return how the library runs a selection."""
    kernel = request.kernel
    assert isinstance(kernel, TopKKernel), "it is asked about selections"
    code = _code(request.target, SelectionVariant(kernel.buffers[0].dtype, kernel.largest))
    whole, part, joined = _symbols(code.name)
    schedule = schedule_topk(kernel)
    areas = schedule.chunks * schedule.parts
    phases = (Phase(whole, schedule.chunks),)
    if schedule.part:
        phases = (Phase(part, areas), Phase(joined, schedule.chunks))
    emitted = EmittedKernel(
        phases,
        len(kernel.buffers),
        code.template.given(*schedule.parameters(kernel)),
        areas * schedule.area * BYTES,
    )
    return LibraryKernel(emitted, (code,))


def common_selections(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what selections in f32 need."""
    yield _code(target, SelectionVariant(F32, largest=True))


def _code(target: TargetSpec, variant: SelectionVariant) -> LibraryPart:
    name = f"select_{variant.name}"

    def define(module: ModuleBuilder) -> None:
        emit_selection(module, _symbols(name), variant, target)

    return library_part(target, Template(name, define, PARAMETERS))


def _symbols(name: str) -> tuple[str, str, str]:
    return f"{name}_whole", f"{name}_part", f"{name}_joined"

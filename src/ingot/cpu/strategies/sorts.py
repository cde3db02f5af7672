# SPDX-License-Identifier: Apache-2.0
"""The strategies of sorts with the kernel's comparator in their code: a network, a merge sort."""

from __future__ import annotations

from ingot.cpu.emit.sort.kernel import emit_sort_kernel
from ingot.cpu.strategies.plans import KERNEL_WEIGHT, CodePlan, loop_code, scheduled
from ingot.cpu.strategies.request import Request
from ingot.kernel.expr import walk
from ingot.kernel.ir import SortKernel
from ingot.kernel.loop.pipeline import run_kernel_passes
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.sort.network import sort_network
from ingot.kernel.sort.sort import schedule_sort


def match_network(request: Request) -> CodePlan | str:
    """Return the plan of a sorting network, as loops of the kernel's own, or why it is none."""
    network = sort_network(_sort_kernel(request))
    if isinstance(network, str):
        return network
    loops = run_kernel_passes(network)
    return loop_code(loops, request.target, schedule_loops(loops, request.vectors))


def match_merge_sort(request: Request) -> CodePlan:
    """Return the plan of a merge sort."""
    kernel = _sort_kernel(request)
    weight = KERNEL_WEIGHT + len(walk(kernel.exprs))
    return scheduled(emit_sort_kernel, kernel, schedule_sort(kernel), request.target, weight)


def _sort_kernel(request: Request) -> SortKernel:
    kernel = request.kernel
    assert isinstance(kernel, SortKernel), "the table says so"
    return kernel

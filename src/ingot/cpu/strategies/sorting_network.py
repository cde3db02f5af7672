# SPDX-License-Identifier: Apache-2.0
"""The strategy of sorts of few elements: a network, as loops of the kernel's own."""

from __future__ import annotations

from ingot.cpu.strategies.plans import CodePlan, loop_code
from ingot.cpu.strategies.request import Request
from ingot.kernel.ir import SortKernel
from ingot.kernel.passes.pipeline import run_kernel_passes
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.sort.network import sort_network


def match_network(request: Request) -> CodePlan | str:
    """Return the plan of a sorting network, as loops of the kernel's own, or why it is none."""
    kernel = request.kernel_as(SortKernel)
    network = sort_network(kernel)
    if isinstance(network, str):
        return network
    loops = run_kernel_passes(network, request.context, label=request.label)
    return loop_code(loops, request.target, schedule_loops(loops, request.vectors))

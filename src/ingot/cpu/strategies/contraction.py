# SPDX-License-Identifier: Apache-2.0
"""The strategy of any contraction: loops and micro-kernels of its own."""

from __future__ import annotations

from ingot.cpu.emit.contraction.kernel import emit_contraction_kernel
from ingot.cpu.strategies.plans import CONTRACTION_WEIGHT, CodePlan, scheduled
from ingot.cpu.strategies.request import Request
from ingot.kernel.contraction.plan import plan_contraction
from ingot.kernel.contraction.schedule import schedule_contraction
from ingot.kernel.ir import ContractionKernel


def match_contraction(request: Request) -> CodePlan:
    """Return the plan of a contraction."""
    kernel = request.kernel_as(ContractionKernel)
    schedule = schedule_contraction(kernel, request.vectors)
    plan = plan_contraction(kernel, schedule, request.vectors)
    return scheduled(emit_contraction_kernel, kernel, plan, request.target, CONTRACTION_WEIGHT)

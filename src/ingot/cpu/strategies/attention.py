# SPDX-License-Identifier: Apache-2.0
"""The strategy of attention: loops of its own on the micro-kernels of contractions."""

from __future__ import annotations

from ingot.cpu.emit.attention.kernel import emit_attention_kernel
from ingot.cpu.strategies.plans import CONTRACTION_WEIGHT, CodePlan, scheduled
from ingot.cpu.strategies.request import Request
from ingot.kernel.attention.schedule import schedule_attention
from ingot.kernel.ir import AttentionKernel


def match_attention(request: Request) -> CodePlan:
    """Return the plan of attention."""
    kernel = request.kernel_as(AttentionKernel)
    schedule = schedule_attention(kernel, request.vectors)
    return scheduled(emit_attention_kernel, kernel, schedule, request.target, CONTRACTION_WEIGHT)

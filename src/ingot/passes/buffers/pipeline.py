# SPDX-License-Identifier: Apache-2.0
"""The passes between fusion and buffer assignment, in order.

Each needs what the one before it ensures (`Pass.requires`); no pass may edit a computation that
the host program runs after them. Then `assign_buffers(module)`.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.copy_insertion import CopyInsertion
from ingot.passes.buffers.flatten import flatten_call_graph, split_updates
from ingot.passes.late import late
from ingot.passes.schedule.scheduler import memory_scheduler

_SCHEDULED = (flatten_call_graph, split_updates, memory_scheduler)

LATENCY_HIDING = late(
    "latency-hiding-scheduler",
    "schedule.latency_hiding",
    "all-gather all-reduce all-to-all collective-broadcast collective-permute reduce-scatter",
    requires="scheduled",
)
"""Begins collectives early."""

BUFFER_PASSES = Pipeline("buffers", (*_SCHEDULED, LATENCY_HIDING, CopyInsertion()))
"""Those of CPUs."""

GPU_BUFFER_PASSES = Pipeline("buffers", (*_SCHEDULED, CopyInsertion()))
"""Those of GPUs. The host carries their collectives, and knows that an operand is computed only
where the program waits for it: none may begin early."""

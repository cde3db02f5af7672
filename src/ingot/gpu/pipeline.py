# SPDX-License-Identifier: Apache-2.0
"""The GPU pipeline: a literal tuple of passes, in the order in which they run.

It has the passes of the CPU's (`ingot.cpu.pipeline`) that do not know the CPU. The trip counts that
simplification writes down let the host start a counted loop without waiting for its condition.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.pipeline import GPU_BUFFER_PASSES
from ingot.passes.fusion.fusion import fusion
from ingot.passes.simplify.pipeline import SIMPLIFICATION

PIPELINE = Pipeline("gpu", (SIMPLIFICATION, fusion, GPU_BUFFER_PASSES))

ORDER = """
    while-loop-trip-count-annotator < fusion: counters are in kernels after it
    fusion < flatten-call-graph: fused computations belong to one kernel each by then
"""

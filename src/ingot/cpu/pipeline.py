# SPDX-License-Identifier: Apache-2.0
"""The CPU pipeline: a literal tuple of passes, in the order in which they run.

Simplification sees the program as written; fusion then decides the kernels; the passes after fusion
know what a kernel is. The runner checks the order of passes from their `requires` and `ensures`.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.pipeline import BUFFER_PASSES
from ingot.passes.fusion.fusion import fusion, wide_concatenates
from ingot.passes.late import late
from ingot.passes.simplify.pipeline import simplification

PIPELINE = Pipeline(
    "cpu",
    (
        simplification(late("change-op-data-type", "expand.product_types", "convolution")),
        wide_concatenates,
        late("attention-fusion", "fusion.attention", "dot"),
        fusion,
        late("double-loops", "buffers.double_loops", "while"),
        BUFFER_PASSES,
    ),
)

ORDER = """
    change-op-data-type < convolution-phases: it asks what drivers take, which have f32
    constant-folding < wide-concatenates: a folded concatenate needs no parts
    wide-concatenates < fusion: each part becomes a kernel of its own
    dot-canonicalizer < fusion: kernels take products with one batch and one sum
    dot-canonicalizer < attention-fusion: it looks for products in that form
    attention-fusion < fusion: the rest of attention is fused as anything else
    convolution-canonicalizer < fusion: kernels take convolutions in one layout
    float-normalization < fusion: kernels compute on types that the CPU has
    while-loop-trip-count-annotator < fusion: counters are in kernels after it
    fusion < double-loops: what a step reads and writes is known of kernels
    fusion < flatten-call-graph: fused computations belong to one kernel each by then
    fusion < split-updates: it is the updates inside of fusions that are split
"""

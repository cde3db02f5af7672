# SPDX-License-Identifier: Apache-2.0
"""The CPU pipeline: a literal tuple of passes, in the order in which they run.

Simplification sees the program as written; fusion then decides the kernels; the passes after fusion
know what a kernel is. The runner checks the order of passes from their `requires` and `ensures`.
"""

from __future__ import annotations

from ingot.hlo.rewrite.ordering import Order, check_order
from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.double_loops import DoubleLoops
from ingot.passes.buffers.pipeline import BUFFER_PASSES
from ingot.passes.fusion.attention import AttentionFusion
from ingot.passes.fusion.fusion import Fusion
from ingot.passes.fusion.wide_concatenates import WideConcatenates
from ingot.passes.simplify.pipeline import SIMPLIFICATION

PIPELINE = Pipeline(
    "cpu",
    (
        SIMPLIFICATION,
        WideConcatenates(),
        AttentionFusion(),
        Fusion(),
        DoubleLoops(),
        BUFFER_PASSES,
    ),
)

ORDER = (
    Order("constant-folding", "wide-concatenates", "a folded concatenate needs no parts"),
    Order("wide-concatenates", "fusion", "each part becomes a kernel of its own"),
    Order("dot-canonicalizer", "fusion", "kernels take products with one batch and one sum"),
    Order("dot-canonicalizer", "attention-fusion", "it looks for products in that form"),
    Order("attention-fusion", "fusion", "the rest of attention is fused as anything else"),
    Order("convolution-canonicalizer", "fusion", "kernels take convolutions in one layout"),
    Order("float-normalization", "fusion", "kernels compute on types that the CPU has"),
    Order("while-loop-trip-count-annotator", "fusion", "counters are in kernels after it"),
    Order("fusion", "double-loops", "what a step reads and writes is known of kernels"),
    Order("fusion", "flatten-call-graph", "fused computations belong to one kernel each by then"),
    Order("fusion", "split-updates", "it is the updates inside of fusions that are split"),
)
check_order(PIPELINE, ORDER)

"""The CPU pipeline: a literal tuple of passes, in the order in which they run.

Simplification sees the program as written; fusion then decides the kernels; after fusion only
passes run that know what a kernel is. What must come before what is checked by the runner from
the passes' `requires` and `ensures`.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.pipeline import BUFFER_PASSES
from ingot.passes.fusion.fusion import Fusion
from ingot.passes.fusion.wide_concatenates import WideConcatenates
from ingot.passes.simplify.pipeline import SIMPLIFICATION

PIPELINE = Pipeline("cpu", (SIMPLIFICATION, WideConcatenates(), Fusion(), BUFFER_PASSES))

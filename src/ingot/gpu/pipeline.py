# SPDX-License-Identifier: Apache-2.0
"""The GPU pipeline: a literal tuple of passes, in the order in which they run.

It has the passes of the CPU's (`ingot.cpu.pipeline`) that do not know the CPU.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.pipeline import BUFFER_PASSES
from ingot.passes.fusion.fusion import Fusion
from ingot.passes.simplify.pipeline import SIMPLIFICATION

PIPELINE = Pipeline("gpu", (SIMPLIFICATION, Fusion(), BUFFER_PASSES))

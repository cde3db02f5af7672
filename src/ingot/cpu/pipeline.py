"""The CPU pipeline: a literal tuple of passes, in the order in which they run."""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.buffers.copy_insertion import CopyInsertion
from ingot.passes.buffers.flatten import FlattenCallGraph
from ingot.passes.fusion.fusion import Fusion
from ingot.passes.schedule.scheduler import MemoryScheduler
from ingot.passes.simplify.calls import CallInliner
from ingot.passes.simplify.dead_code import DeadCodeElimination

PIPELINE = Pipeline(
    "cpu",
    (
        CallInliner(),
        Fusion(),
        DeadCodeElimination(),
        FlattenCallGraph(),
        MemoryScheduler(),
        CopyInsertion(),
    ),
)

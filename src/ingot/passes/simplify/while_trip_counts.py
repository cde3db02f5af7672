# SPDX-License-Identifier: Apache-2.0
"""Trip counts as attributes of loops, so that host programs need not wait for each condition.

After fusion the counter of a loop is inside a kernel, where `trip_count` does not see it.

Source: xla/service/while_loop_trip_count_annotator.cc.
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import OpPass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.trip_count import trip_count
from ingot.semantics.trip_counts import set_trip_count
from ingot.support.records import record


@record
class WhileLoopTripCountAnnotator(OpPass):
    """Notes how often the body of each loop runs, where that is known."""

    name = "while-loop-trip-count-annotator"
    concerns = frozenset({"while"})

    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Note a loop's trip count; those that a program came with are not trusted."""
        return set_trip_count(op, trip_count(op))

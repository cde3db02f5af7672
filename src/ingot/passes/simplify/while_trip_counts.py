# SPDX-License-Identifier: Apache-2.0
"""Trip counts as attributes of loops, so that host programs need not wait for each condition.

After fusion the counter of a loop is inside a kernel, where `trip_count` does not see it.

Source: xla/service/while_loop_trip_count_annotator.cc.
"""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.trip_count import trip_count
from ingot.semantics.trip_counts import set_trip_count
from ingot.support.records import record


@record
class WhileLoopTripCountAnnotator(Pass):
    """Notes how often the body of each loop runs, where that is known."""

    name = "while-loop-trip-count-annotator"
    concerns = frozenset({"while"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit every loop; trip counts that a program came with are not trusted."""
        changed = False
        for computation in module.post_order():
            for instruction in computation.instructions:
                if instruction.opcode == "while":
                    changed = set_trip_count(instruction, trip_count(instruction)) or changed
        return changed

# SPDX-License-Identifier: Apache-2.0
"""Placement annotations removed: a program computes the same without them.

Some ask for host or device memory, which are the same on a CPU; layouts do not affect results.

Source: xla/service/sharding_remover.cc.
"""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.semantics.custom_calls import is_annotation, is_note
from ingot.support.records import record


@record
class ShardingRemover(Pass):
    """Replaces annotations of unchanged shape by their operands."""

    name = "sharding-remover"
    concerns = frozenset({"custom-call"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite in every reachable computation."""
        changed = False
        for computation in module.post_order():
            for item in [i for i in computation.instructions if is_annotation(i)]:
                computation.replace_all_uses(item, item.operands[0])
                computation.remove(item)
                changed = True
            for note in [i for i in computation.instructions if is_note(i)]:
                if not note.users and not note.is_root:
                    computation.remove(note)
                    changed = True
        return changed

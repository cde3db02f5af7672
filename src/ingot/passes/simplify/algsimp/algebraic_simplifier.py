# SPDX-License-Identifier: Apache-2.0
"""The pass that applies the algebraic rules to every computation."""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.hlo.rewrite.driver import apply_rules
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.algsimp.rules import RULES
from ingot.support.records import record


@record
class AlgebraicSimplifier(Pass):
    """Applies local algebraic rules until none fires, under the licence of the context."""

    name = "algsimp"

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite every reachable computation."""
        return apply_rules(module, RULES, context)

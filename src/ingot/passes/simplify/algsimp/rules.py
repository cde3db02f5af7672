# SPDX-License-Identifier: Apache-2.0
"""The algebraic simplifier, and every rule of it in the order in which they are tried."""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.hlo.rewrite.driver import apply_rules
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.rewrite.rule import RuleSet, rules_in
from ingot.passes.simplify.algsimp import (
    arithmetic,
    boxes,
    comparisons,
    constants,
    conversions,
    gathers,
    joins,
    lattice,
    powers,
    reductions,
    reshapes,
    windows,
)

# Rules that take something away come first; those that only bring a canonical form (in `constants`)
# come last, so that they never hide the patterns of the others.
RULES = RuleSet(
    rules_in(
        arithmetic,
        powers,
        lattice,
        comparisons,
        conversions,
        reshapes,
        boxes,
        windows,
        gathers,
        joins,
        reductions,
        constants,
    )
)


@module_pass("algsimp")
def algebraic_simplifier(module: Module, context: PassContext) -> bool:
    """Applies local algebraic rules until none fires, under the licence of the context."""
    return apply_rules(module, RULES, context)

# SPDX-License-Identifier: Apache-2.0
"""Every rule of the algebraic simplifier, in the order in which they are tried."""

from __future__ import annotations

from ingot.hlo.rewrite.rule import RuleSet, rules_in
from ingot.passes.simplify.algsimp import (
    arithmetic,
    bits,
    bounds,
    boxes,
    broadcasts,
    comparisons,
    constants,
    conversions,
    error_functions,
    joins,
    lattice,
    powers,
    reductions,
    reshapes,
    tuples,
    windows,
)

# Rules that take something away come first; those that only bring a canonical form (in `constants`)
# come last, so that they never hide the patterns of the others.
RULES = RuleSet(
    rules_in(
        tuples,
        arithmetic,
        powers,
        error_functions,
        lattice,
        bits,
        bounds,
        comparisons,
        conversions,
        broadcasts,
        reshapes,
        boxes,
        windows,
        joins,
        reductions,
        constants,
    )
)

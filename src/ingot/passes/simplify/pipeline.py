"""The simplification pipeline: which passes, in which order, and why.

Backends run `SIMPLIFICATION` before fusion decides anything. Order within the group:

* `zero-sized-hlo-elimination` first: other passes need not think of arrays without elements.
* `call-inliner`, `map-inliner`: rules are local to a computation, so what can be one is made one.
* `algsimp` before `cse`: canonical forms make more expressions equal.
* `constant-folding` after `algsimp`, which moves broadcasts out of its way and turns constants
  that are splats back into broadcasts.
* `simplify-conditional` and `simplify-while-loops` after folding: they look for constants.
* `dce` last: the others leave dead code behind, and counts of uses must be true for rules that
  ask for a single user.

`dot-strength-reduction` and `dot-canonicalizer` come after the fixed point, as the rules look for
dots as written, and are followed by another round for the transposes and reshapes that they make.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import FixedPoint, Pipeline
from ingot.passes.expand.comparison import ComparisonExpander
from ingot.passes.expand.rng_bits import RngBitGeneratorExpander
from ingot.passes.simplify.algsimp.algebraic_simplifier import AlgebraicSimplifier
from ingot.passes.simplify.calls import (
    CallInliner,
    ConditionalSimplifier,
    MapInliner,
    ZeroSizedElimination,
)
from ingot.passes.simplify.common_subexpressions import CommonSubexpressionElimination
from ingot.passes.simplify.constant_folding import ConstantFolding
from ingot.passes.simplify.dead_code import DeadCodeElimination
from ingot.passes.simplify.dots import DotCanonicalizer, DotStrengthReduction
from ingot.passes.simplify.while_loops import WhileLoopSimplifier

FIXED_POINT = FixedPoint(
    "simplification",
    (
        ZeroSizedElimination(),
        CallInliner(),
        MapInliner(),
        AlgebraicSimplifier(),
        CommonSubexpressionElimination(),
        ConstantFolding(),
        ConditionalSimplifier(),
        WhileLoopSimplifier(),
        DeadCodeElimination(),
    ),
)

EXPANSION = Pipeline("expansion", (ComparisonExpander(), RngBitGeneratorExpander()))

DOTS = FixedPoint(
    "dot-simplification",
    (
        DotStrengthReduction(),
        DotCanonicalizer(),
        AlgebraicSimplifier(),
        CommonSubexpressionElimination(),
        ConstantFolding(),
        DeadCodeElimination(),
    ),
)

SIMPLIFICATION = Pipeline("simplify", (EXPANSION, FIXED_POINT, DOTS))

# SPDX-License-Identifier: Apache-2.0
"""The simplification pipeline: its passes, their order, and the reasons for it.

Backends run `simplification()` before fusion. `ORDER` has the reasons for the order. The passes on
dots come after the fixed point, as rules match dots as written, and are followed by another round
for the transposes and reshapes that they make. Passes for ops that few programs have are rows
(`late`), which import them when a module has such ops.
"""

from __future__ import annotations

from ingot.hlo.rewrite.census import EMPTY
from ingot.hlo.rewrite.pass_base import FixedPoint, Pass, Pipeline
from ingot.passes.expand.normalization import float_normalization, sub_byte_normalization
from ingot.passes.expand.pipeline import RUNTIME_OPS
from ingot.passes.late import LatePass, late
from ingot.passes.simplify.algsimp.rules import algebraic_simplifier
from ingot.passes.simplify.constant_folding import ConstantFolding
from ingot.passes.simplify.dead_code import common_subexpression_elimination, dead_code_elimination
from ingot.passes.unfolding import unfolding_limit


def _of_loops(name: str, home: str) -> LatePass:
    """Return the row of a pass on loops, which is in `while_loops`."""
    return late(name, f"simplify.while_loops.{home}", "while")


def _of_convolutions(name: str, home: str) -> LatePass:
    """Return the row of a pass on convolutions, which is in `convolutions`."""
    return late(name, f"simplify.convolutions.{home}", "convolution")


_ZERO_SIZED = late("zero-sized-hlo-elimination", "simplify.zero_sized", f"{EMPTY} gather")
_CALLS = late("call-inliner", "simplify.calls", "call", ensures="flat-calls")
_ALL_REDUCES = late("all-reduce-combiner", "simplify.all_reduces", "all-reduce")
_TRIP_COUNTS = _of_loops("while-loop-trip-count-annotator", "trip_count")
_SORTS = late("simplify-sorts", "simplify.sorts", "sort")

FIXED_POINT = FixedPoint(
    "simplification",
    (
        _ZERO_SIZED,
        _CALLS,
        late("map-inliner", "simplify.calls", "map"),
        algebraic_simplifier,
        common_subexpression_elimination,
        ConstantFolding(),
        late("simplify-conditional", "simplify.calls", "conditional"),
        _SORTS,
        _of_loops("simplify-while-loops", "simplifier"),
        _of_loops("while-loop-stack-motion", "stacks"),
        _of_loops("while-loop-constant-sinking", "invariants"),
        _of_loops("while-loop-invariant-code-motion", "invariants"),
        late("while-loop-all-reduce-code-motion", "simplify.all_reduces", "while"),
        late("all-reduce-code-motion", "simplify.all_reduces", "all-reduce"),
        _of_loops("while-loop-dot-code-motion", "dots"),
        dead_code_elimination,
    ),
)

EXPANSION = Pipeline(
    "expansion",
    (
        unfolding_limit,
        late("defuser", "simplify.calls", "fusion"),
        _ZERO_SIZED,
        late("bitcast-decomposer", "layout.custom_call_layouts", "bitcast"),
        _CALLS,
        RUNTIME_OPS,
        late("sharding-remover", "expand.sharding_remover", "custom-call"),
        late("custom-call-expander", "expand.custom_call_expander", "custom-call"),
        late("linalg-expander", "expand.lapack_calls", "cholesky triangular-solve"),
        late("custom-call-layouts", "layout.custom_call_layouts", "custom-call"),
        late("small-matrix-expander", "expand.small_matrices", "custom-call"),
        late("topk-expander", "simplify.sorts", "topk"),
        _SORTS,
        late("comparison-expander", "expand.wide_arithmetic", "compare"),
        late(
            "rng-bit-generator-expander", "expand.rng", "rng-bit-generator", ensures="no-rng-bits"
        ),
        late("scatter-simplifier", "simplify.scatters", "scatter"),
        float_normalization,
        sub_byte_normalization,
        late("complex-expander", "expand.complex_expander.expander", "c64[] c128[]"),
    ),
)

DOTS = FixedPoint(
    "dot-simplification",
    (
        late("sum-to-dot", "simplify.dots.sums_of_products", "reduce"),
        late("dot-strength-reduction", "simplify.dots.strength_reduction", "dot"),
        late("pair-reductions", "simplify.pair_reductions", "reduce"),
        late("separable-windows", "simplify.pair_reductions", "reduce-window"),
        late("dot-canonicalizer", "simplify.dots.canonicalizer", "dot", ensures="native-dots"),
        _of_loops("while-loop-product-layout", "invariants"),
        _of_convolutions("convolution-filter-slicer", "operands"),
        _of_convolutions("conv-operand-swapper", "operands"),
        _of_convolutions("convolution-phases", "phases"),
        _of_convolutions("convolution-taps", "taps"),
        _of_convolutions("depthwise-strips", "depthwise_strips"),
        _of_convolutions("grouped-filter-gradients", "grouped_filter_gradients"),
        late(
            "convolution-canonicalizer",
            "simplify.convolutions.canonicalizer",
            "convolution",
            ensures="native-convolutions",
        ),
        late("reshape-mover", "simplify.movers", "dot"),
        late("transpose-mover", "simplify.movers", "transpose"),
        algebraic_simplifier,
        common_subexpression_elimination,
        ConstantFolding(),
        dead_code_elimination,
    ),
)


def simplification(*before_dots: Pass) -> Pipeline:
    """Return what runs before fusion: a backend's own passes run before those on dots."""
    last = (DOTS, _ALL_REDUCES, _TRIP_COUNTS)
    return Pipeline("simplify", (EXPANSION, FIXED_POINT, *before_dots, *last))


SIMPLIFICATION = simplification()

ORDER = """
    collective-expander < all-reduce-combiner: afterwards each all-reduce has one operand
    convolution-filter-slicer < conv-operand-swapper: a filter of which little is seen need not
        become the input
    unfolding-limit < defuser: a computation of several fusions may stay called
    unfolding-limit < bitcast-decomposer: no pass has to process the excess calls
    defuser < bitcast-decomposer: bitcasts may be inside fusions
    bitcast-decomposer < sharding-remover: later passes may change layouts
    call-inliner < dynamic_padder: parameters of dynamic size are those of calls
    dynamic-boundary < dynamic_padder: afterwards nothing of dynamic size enters or leaves
    call-meanings < dynamic_padder: afterwards windows over dynamic sizes are ordinary ones
    batchnorm_expander < dynamic_padder: it counts elements by get-dimension-size
    call-inliner < map-to-scan: afterwards the contents of a call are in the map
    dynamic_padder < select-and-scatter-expander: sizes are known then
    select-and-scatter-expander < reducer-expander: its computations may hold loops
    select-and-scatter-expander < map-to-scan: its scatter computation may hold a loop
    reducer-expander < conditional-to-select: branches with loops stay branches
    reducer-expander < scan_expander: its scans become loops
    map-to-scan < conditional-to-select: branches with loops stay branches
    map-to-scan < scan_expander: its scans become loops
    conditional-to-select < map-inliner: it supports no branches
    defuser < sharding-remover: passes do not look inside fusions
    rng-bit-generator-expander < algsimp: constants of the expansion (keys of the rounds, sizes)
        are folded once
    custom-call-expander < topk-expander: it makes topk of a custom call
    custom-call-expander < complex-expander: it selects among complex numbers
    linalg-expander < complex-expander: it selects among complex numbers
    linalg-expander < float-normalization: it computes on f32 instead of them
    topk-expander < comparison-expander: its comparator uses the total order
    select-and-scatter-expander < map-inliner: it applies the scatter computation to whole
        arrays
    select-and-scatter-expander < scatter-simplifier: it makes scatters
    scatter-simplifier < map-inliner: it applies the combiner by a map
    comparison-expander < float-normalization: it compares the bits of f32
    select-and-scatter-expander < float-normalization: it makes sums of any type
    select-and-scatter-expander < complex-expander: its reduction and its scatter can be split
        into parts, the op itself cannot
    complex-expander < algsimp: rules and folding then see real arithmetic
    conv-operand-swapper < convolution-phases: the swap changes which operand is dilated
    convolution-phases < convolution-taps: phases that become features may be enough of them
    convolution-taps < convolution-canonicalizer: it takes any layout
    convolution-phases < convolution-canonicalizer: its parts need the layout too
    convolution-phases < depthwise-strips: it leaves no gaps between rows
    depthwise-strips < convolution-canonicalizer: strips need the layout too
    grouped-filter-gradients < convolution-canonicalizer: so do joined groups
    defuser < zero-sized-hlo-elimination: it does not look inside fusions
    zero-sized-hlo-elimination < select-and-scatter-expander, reducer-expander, linalg-expander,
        topk-expander, scatter-simplifier, complex-expander, algsimp: it need not handle empty
        arrays
    call-inliner < algsimp: rules see one computation at a time
    map-inliner < algsimp: rules see ops on arrays, not scalar computations
    algsimp < cse: canonical forms make more expressions equal
    algsimp < constant-folding: broadcasts of constants are moved out of the way
    constant-folding < simplify-conditional: it looks for constant predicates
    constant-folding < simplify-while-loops: it looks for constant bounds
    simplify-while-loops < while-loop-invariant-code-motion: constants are in the body, not in
        its state
    simplify-while-loops < while-loop-stack-motion: trip counts are known where they follow from
        other loops
    while-loop-stack-motion < while-loop-constant-sinking: it makes arrays that repeat a value
    while-loop-constant-sinking < while-loop-invariant-code-motion: what repeats elements is in
        the body
    while-loop-invariant-code-motion < while-loop-dot-code-motion: products of invariants are
        not taken for products of rows
    while-loop-dot-code-motion < dce: what moved is left behind in the body
    while-loop-all-reduce-code-motion < while-loop-dot-code-motion: a product is added up itself
        when it is not summed over devices before
    simplify-while-loops < while-loop-trip-count-annotator: loops change no more
    simplify-while-loops < dce: bodies of loops that went away are dead
    custom-call-layouts < small-matrix-expander: matrices lie as LAPACK has them
    simplify-sorts < comparison-expander: it looks for the total order of floats
    simplify-sorts < dce: sorts that were selected from are dead
    convolution-canonicalizer < transpose-mover: it makes the transposes that move
    dot-canonicalizer < while-loop-product-layout: it decides how a factor is read
    dot-canonicalizer < reshape-mover: it makes the reshapes that move
    dot-strength-reduction < pair-reductions: it makes reductions of products
    sum-to-dot < pair-reductions: sums over pairs of rows that are products become dots
    sum-to-dot < dot-canonicalizer: it makes dots of any layout
    dot-strength-reduction < dot-canonicalizer: products of vectors need no reshapes
"""

# SPDX-License-Identifier: Apache-2.0
"""The simplification pipeline: its passes, their order, and the reasons for it.

Backends run `simplification()` before fusion. `ORDER` has the reasons for the order. The passes on
dots come after the fixed point, as rules match dots as written, and are followed by another round
for the transposes and reshapes that they make.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import FixedPoint, Pass, Pipeline
from ingot.passes.expand.complex_expander.expander import ComplexExpander
from ingot.passes.expand.custom_call_expander import custom_call_expander
from ingot.passes.expand.lapack_calls import linalg_expander
from ingot.passes.expand.normalization import FloatNormalization, SubByteNormalization
from ingot.passes.expand.pipeline import RUNTIME_OPS
from ingot.passes.expand.rng import rng_bit_generator_expander
from ingot.passes.expand.sharding_remover import ShardingRemover
from ingot.passes.expand.small_matrices import small_matrix_expander
from ingot.passes.expand.wide_arithmetic import comparison_expander
from ingot.passes.layout.custom_call_layouts import BitcastDecomposer, CustomCallLayouts
from ingot.passes.simplify.algsimp.rules import AlgebraicSimplifier
from ingot.passes.simplify.all_reduces import (
    AllReduceCodeMotion,
    AllReduceCombiner,
    WhileLoopAllReduceCodeMotion,
)
from ingot.passes.simplify.calls import (
    CallInliner,
    ConditionalSimplifier,
    Defuser,
    MapInliner,
)
from ingot.passes.simplify.constant_folding import ConstantFolding
from ingot.passes.simplify.convolution_operands import (
    conv_operand_swapper,
    convolution_filter_slicer,
)
from ingot.passes.simplify.convolution_phases import convolution_phases
from ingot.passes.simplify.convolution_taps import convolution_taps
from ingot.passes.simplify.convolutions import ConvolutionCanonicalizer
from ingot.passes.simplify.dead_code import CommonSubexpressionElimination, DeadCodeElimination
from ingot.passes.simplify.depthwise_strips import depthwise_strips
from ingot.passes.simplify.dots import DotCanonicalizer, DotStrengthReduction
from ingot.passes.simplify.grouped_filter_gradients import grouped_filter_gradients
from ingot.passes.simplify.movers import ReshapeMover, TransposeMover
from ingot.passes.simplify.pair_reductions import SeparableWindows, pair_reductions
from ingot.passes.simplify.scatters import scatter_simplifier
from ingot.passes.simplify.sorts import SortSimplifier, topk_expander
from ingot.passes.simplify.trip_count import WhileLoopTripCountAnnotator
from ingot.passes.simplify.unfolding import UnfoldingLimit
from ingot.passes.simplify.while_dots import WhileLoopDotCodeMotion
from ingot.passes.simplify.while_invariants import (
    WhileLoopConstantSinking,
    WhileLoopInvariantCodeMotion,
    WhileLoopProductLayout,
)
from ingot.passes.simplify.while_loops import WhileLoopSimplifier
from ingot.passes.simplify.while_stacks import WhileLoopStackMotion
from ingot.passes.simplify.zero_sized import ZeroSizedElimination

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
        SortSimplifier(),
        WhileLoopSimplifier(),
        WhileLoopStackMotion(),
        WhileLoopConstantSinking(),
        WhileLoopInvariantCodeMotion(),
        WhileLoopAllReduceCodeMotion(),
        AllReduceCodeMotion(),
        WhileLoopDotCodeMotion(),
        DeadCodeElimination(),
    ),
)

EXPANSION = Pipeline(
    "expansion",
    (
        UnfoldingLimit(),
        Defuser(),
        ZeroSizedElimination(),
        BitcastDecomposer(),
        CallInliner(),
        RUNTIME_OPS,
        ShardingRemover(),
        custom_call_expander,
        linalg_expander,
        CustomCallLayouts(),
        small_matrix_expander,
        topk_expander,
        SortSimplifier(),
        comparison_expander,
        rng_bit_generator_expander,
        scatter_simplifier,
        FloatNormalization(),
        SubByteNormalization(),
        ComplexExpander(),
    ),
)

DOTS = FixedPoint(
    "dot-simplification",
    (
        DotStrengthReduction(),
        pair_reductions,
        SeparableWindows(),
        DotCanonicalizer(),
        WhileLoopProductLayout(),
        convolution_filter_slicer,
        conv_operand_swapper,
        convolution_phases,
        convolution_taps,
        depthwise_strips,
        grouped_filter_gradients,
        ConvolutionCanonicalizer(),
        ReshapeMover(),
        TransposeMover(),
        AlgebraicSimplifier(),
        CommonSubexpressionElimination(),
        ConstantFolding(),
        DeadCodeElimination(),
    ),
)


def simplification(*before_dots: Pass) -> Pipeline:
    """Return what runs before fusion: a backend's own passes run before those on dots."""
    last = (DOTS, AllReduceCombiner(), WhileLoopTripCountAnnotator())
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
    dot-strength-reduction < dot-canonicalizer: products of vectors need no reshapes
"""

# SPDX-License-Identifier: Apache-2.0
"""The simplification pipeline: its passes, their order, and the reasons for it.

Backends run `SIMPLIFICATION` before fusion. `ORDER` has the reasons for the order. The passes on
dots come after the fixed point, as rules match dots as written, and are followed by another round
for the transposes and reshapes that they make.
"""

from __future__ import annotations

from ingot.hlo.rewrite.ordering import Order, check_order
from ingot.hlo.rewrite.pass_base import FixedPoint, Pipeline
from ingot.passes.expand.bitcast_decomposer import BitcastDecomposer
from ingot.passes.expand.comparison import ComparisonExpander
from ingot.passes.expand.complex_expander.expander import ComplexExpander
from ingot.passes.expand.custom_call_expander import CustomCallExpander
from ingot.passes.expand.linalg import LinalgExpander
from ingot.passes.expand.normalization import FloatNormalization, SubByteNormalization
from ingot.passes.expand.pipeline import RUNTIME_OPS
from ingot.passes.expand.rng_bits import RngBitGeneratorExpander
from ingot.passes.expand.sharding_remover import ShardingRemover
from ingot.passes.expand.small_matrices import SmallMatrixExpander
from ingot.passes.expand.topk import TopKExpander
from ingot.passes.layout.custom_call_layouts import CustomCallLayouts
from ingot.passes.simplify.algsimp.algebraic_simplifier import AlgebraicSimplifier
from ingot.passes.simplify.all_reduce_motion import AllReduceCodeMotion
from ingot.passes.simplify.all_reduces import AllReduceCombiner
from ingot.passes.simplify.calls import (
    CallInliner,
    ConditionalSimplifier,
    MapInliner,
)
from ingot.passes.simplify.common_subexpressions import CommonSubexpressionElimination
from ingot.passes.simplify.constant_folding import ConstantFolding
from ingot.passes.simplify.convolution_filters import ConvolutionFilterSlicer
from ingot.passes.simplify.convolution_operands import ConvOperandSwapper
from ingot.passes.simplify.convolution_phases import ConvolutionPhases
from ingot.passes.simplify.convolutions import ConvolutionCanonicalizer
from ingot.passes.simplify.dead_code import DeadCodeElimination
from ingot.passes.simplify.defuser import Defuser
from ingot.passes.simplify.depthwise_strips import DepthwiseStrips
from ingot.passes.simplify.dots import DotCanonicalizer, DotStrengthReduction
from ingot.passes.simplify.grouped_filter_gradients import GroupedFilterGradients
from ingot.passes.simplify.pair_reductions import PairReductions
from ingot.passes.simplify.scatters import ScatterSimplifier
from ingot.passes.simplify.separable_windows import SeparableWindows
from ingot.passes.simplify.sorts import SortSimplifier
from ingot.passes.simplify.transposes import TransposeMover
from ingot.passes.simplify.unfolding import UnfoldingLimit
from ingot.passes.simplify.while_all_reduces import WhileLoopAllReduceCodeMotion
from ingot.passes.simplify.while_dots import WhileLoopDotCodeMotion
from ingot.passes.simplify.while_invariants import WhileLoopInvariantCodeMotion
from ingot.passes.simplify.while_loops import WhileLoopSimplifier
from ingot.passes.simplify.while_products import WhileLoopProductLayout
from ingot.passes.simplify.while_sinking import WhileLoopConstantSinking
from ingot.passes.simplify.while_stacks import WhileLoopStackMotion
from ingot.passes.simplify.while_trip_counts import WhileLoopTripCountAnnotator
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
        CustomCallExpander(),
        LinalgExpander(),
        CustomCallLayouts(),
        SmallMatrixExpander(),
        TopKExpander(),
        SortSimplifier(),
        ComparisonExpander(),
        RngBitGeneratorExpander(),
        ScatterSimplifier(),
        FloatNormalization(),
        SubByteNormalization(),
        ComplexExpander(),
    ),
)

DOTS = FixedPoint(
    "dot-simplification",
    (
        DotStrengthReduction(),
        PairReductions(),
        SeparableWindows(),
        DotCanonicalizer(),
        WhileLoopProductLayout(),
        ConvolutionFilterSlicer(),
        ConvOperandSwapper(),
        ConvolutionPhases(),
        DepthwiseStrips(),
        GroupedFilterGradients(),
        ConvolutionCanonicalizer(),
        TransposeMover(),
        AlgebraicSimplifier(),
        CommonSubexpressionElimination(),
        ConstantFolding(),
        DeadCodeElimination(),
    ),
)

SIMPLIFICATION = Pipeline(
    "simplify",
    (EXPANSION, FIXED_POINT, DOTS, AllReduceCombiner(), WhileLoopTripCountAnnotator()),
)

ORDER = (
    Order(
        "collective-expander",
        "all-reduce-combiner",
        "afterwards each all-reduce has one operand",
    ),
    Order(
        "convolution-filter-slicer",
        "conv-operand-swapper",
        "a filter of which little is seen need not become the input",
    ),
    Order("unfolding-limit", "defuser", "a computation of several fusions may stay called"),
    Order("unfolding-limit", "bitcast-decomposer", "no pass has to process the excess calls"),
    Order("defuser", "bitcast-decomposer", "bitcasts may be inside fusions"),
    Order("bitcast-decomposer", "sharding-remover", "later passes may change layouts"),
    Order("call-inliner", "dynamic_padder", "parameters of dynamic size are those of calls"),
    Order(
        "dynamic-boundary", "dynamic_padder", "afterwards nothing of dynamic size enters or leaves"
    ),
    Order(
        "call-meanings", "dynamic_padder", "afterwards windows over dynamic sizes are ordinary ones"
    ),
    Order("batchnorm_expander", "dynamic_padder", "it counts elements by get-dimension-size"),
    Order("call-inliner", "map-to-scan", "afterwards the contents of a call are in the map"),
    Order("dynamic_padder", "select-and-scatter-expander", "sizes are known then"),
    Order("select-and-scatter-expander", "reducer-expander", "its computations may hold loops"),
    Order("select-and-scatter-expander", "map-to-scan", "its scatter computation may hold a loop"),
    Order("reducer-expander", "conditional-to-select", "branches with loops stay branches"),
    Order("reducer-expander", "scan_expander", "its scans become loops"),
    Order("map-to-scan", "conditional-to-select", "branches with loops stay branches"),
    Order("map-to-scan", "scan_expander", "its scans become loops"),
    Order("conditional-to-select", "map-inliner", "it supports no branches"),
    Order("defuser", "sharding-remover", "passes do not look inside fusions"),
    Order(
        "rng-bit-generator-expander",
        "algsimp",
        "constants of the expansion (keys of the rounds, sizes) are folded once",
    ),
    Order("custom-call-expander", "topk-expander", "it makes topk of a custom call"),
    Order("custom-call-expander", "complex-expander", "it selects among complex numbers"),
    Order("linalg-expander", "complex-expander", "it selects among complex numbers"),
    Order("linalg-expander", "float-normalization", "it computes on f32 instead of them"),
    Order("topk-expander", "comparison-expander", "its comparator uses the total order"),
    Order(
        "select-and-scatter-expander",
        "map-inliner",
        "it applies the scatter computation to whole arrays",
    ),
    Order("select-and-scatter-expander", "scatter-simplifier", "it makes scatters"),
    Order("scatter-simplifier", "map-inliner", "it applies the combiner by a map"),
    Order("comparison-expander", "float-normalization", "it compares the bits of f32"),
    Order("select-and-scatter-expander", "float-normalization", "it makes sums of any type"),
    Order(
        "select-and-scatter-expander",
        "complex-expander",
        "its reduction and its scatter can be split into parts, the op itself cannot",
    ),
    Order("complex-expander", "algsimp", "rules and folding then see real arithmetic"),
    Order(
        "conv-operand-swapper", "convolution-phases", "the swap changes which operand is dilated"
    ),
    Order("convolution-phases", "convolution-canonicalizer", "its parts need the layout too"),
    Order("convolution-phases", "depthwise-strips", "it leaves no gaps between rows"),
    Order("depthwise-strips", "convolution-canonicalizer", "strips need the layout too"),
    Order("grouped-filter-gradients", "convolution-canonicalizer", "so do joined groups"),
    Order("defuser", "zero-sized-hlo-elimination", "it does not look inside fusions"),
    *(
        Order("zero-sized-hlo-elimination", name, "it need not handle empty arrays")
        for name in (
            "select-and-scatter-expander",
            "reducer-expander",
            "linalg-expander",
            "topk-expander",
            "scatter-simplifier",
            "complex-expander",
            "algsimp",
        )
    ),
    Order("call-inliner", "algsimp", "rules see one computation at a time"),
    Order("map-inliner", "algsimp", "rules see ops on arrays, not scalar computations"),
    Order("algsimp", "cse", "canonical forms make more expressions equal"),
    Order("algsimp", "constant-folding", "broadcasts of constants are moved out of the way"),
    Order("constant-folding", "simplify-conditional", "it looks for constant predicates"),
    Order("constant-folding", "simplify-while-loops", "it looks for constant bounds"),
    Order(
        "simplify-while-loops",
        "while-loop-invariant-code-motion",
        "constants are in the body, not in its state",
    ),
    Order(
        "simplify-while-loops",
        "while-loop-stack-motion",
        "trip counts are known where they follow from other loops",
    ),
    Order(
        "while-loop-stack-motion",
        "while-loop-constant-sinking",
        "it makes arrays that repeat a value",
    ),
    Order(
        "while-loop-constant-sinking",
        "while-loop-invariant-code-motion",
        "what repeats elements is in the body",
    ),
    Order(
        "while-loop-invariant-code-motion",
        "while-loop-dot-code-motion",
        "products of invariants are not taken for products of rows",
    ),
    Order("while-loop-dot-code-motion", "dce", "what moved is left behind in the body"),
    Order(
        "while-loop-all-reduce-code-motion",
        "while-loop-dot-code-motion",
        "a product is added up itself when it is not summed over devices before",
    ),
    Order("simplify-while-loops", "while-loop-trip-count-annotator", "loops change no more"),
    Order("simplify-while-loops", "dce", "bodies of loops that went away are dead"),
    Order("custom-call-layouts", "small-matrix-expander", "matrices lie as LAPACK has them"),
    Order("simplify-sorts", "comparison-expander", "it looks for the total order of floats"),
    Order("simplify-sorts", "dce", "sorts that were selected from are dead"),
    Order("convolution-canonicalizer", "transpose-mover", "it makes the transposes that move"),
    Order("dot-canonicalizer", "while-loop-product-layout", "it decides how a factor is read"),
    Order("dot-strength-reduction", "pair-reductions", "it makes reductions of products"),
    Order("dot-strength-reduction", "dot-canonicalizer", "products of vectors need no reshapes"),
)
check_order(SIMPLIFICATION, ORDER)

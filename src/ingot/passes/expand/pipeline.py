# SPDX-License-Identifier: Apache-2.0
"""The passes that rewrite ops without kernels into ops with kernels, in order.

`RUNTIME_OPS` runs first: it leaves ordinary ops and custom calls of Ingot's own targets.
Asynchronous forms are removed before the ops that they wrap.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.expand.async_pairs import AsyncToSync, SendRecvToPermute
from ingot.passes.expand.batch_norm import BatchNormExpander
from ingot.passes.expand.collectives import CollectiveExpander
from ingot.passes.expand.conditional_to_select import ConditionalToSelect
from ingot.passes.expand.custom_call_expander import CallMeanings
from ingot.passes.expand.dynamic_boundary import DynamicBoundary, ExactBoundary
from ingot.passes.expand.dynamic_padder import DynamicPadder
from ingot.passes.expand.fft_lengths import FftLengths
from ingot.passes.expand.foreign import FeedExpander
from ingot.passes.expand.product_types import ConvolutionTypeCanonicalizer
from ingot.passes.expand.ragged_dot import RaggedDotRewriter, ScaledDotRewriter
from ingot.passes.expand.reducer_expander import ReducerExpander
from ingot.passes.expand.rng import RngExpander, RngStateExpander
from ingot.passes.expand.scan import MapToScan, ScanToWhile
from ingot.passes.expand.select_and_scatter import SelectAndScatterExpander
from ingot.passes.expand.sharding_remover import DomainRemover
from ingot.passes.expand.wide_arithmetic import MulhiExpander, StochasticConvertDecomposer

STATIC_SHAPES = Pipeline(
    "static-shapes", (BatchNormExpander(), DynamicBoundary(), CallMeanings(), DynamicPadder())
)
"""Removes dynamic dimensions; stages of a program exchange arrays without any."""

STAGED_SHAPES = Pipeline("staged-shapes", (ExactBoundary(), STATIC_SHAPES))
"""The same for a program that computes sizes anyway: it computes those of its results too."""

RUNTIME_OPS = Pipeline(
    "runtime-ops",
    (
        DomainRemover(),
        STATIC_SHAPES,
        SelectAndScatterExpander(),
        ReducerExpander(),
        MapToScan(),
        ConditionalToSelect(),
        AsyncToSync(),
        SendRecvToPermute(),
        CollectiveExpander(),
        FeedExpander(),
        ConvolutionTypeCanonicalizer(),
        FftLengths(),
        RaggedDotRewriter(),
        ScaledDotRewriter(),
        ScanToWhile(),
        RngExpander(),
        RngStateExpander(),
        StochasticConvertDecomposer(),
        MulhiExpander(),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The passes that rewrite ops without kernels into ops with kernels, in order.

`RUNTIME_OPS` runs first: it leaves ordinary ops and custom calls of Ingot's own targets.
Asynchronous forms are removed before the ops that they wrap.
"""

from __future__ import annotations

from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.expand.async_pairs import SendRecvToPermute, async_to_sync
from ingot.passes.expand.batch_norm import batch_norm_expander
from ingot.passes.expand.collectives import collective_expander
from ingot.passes.expand.custom_call_expander import call_meanings
from ingot.passes.expand.dynamic_boundary import DynamicBoundary, ExactBoundary
from ingot.passes.expand.dynamic_padder import DynamicPadder
from ingot.passes.expand.fft_lengths import fft_lengths
from ingot.passes.expand.foreign import feed_expander
from ingot.passes.expand.product_types import convolution_type_canonicalizer
from ingot.passes.expand.ragged_dot import ragged_dot_rewriter, scaled_dot_rewriter
from ingot.passes.expand.reducer_expander import reducer_expander
from ingot.passes.expand.rng import rng_expander, rng_state_expander
from ingot.passes.expand.scan import map_to_scan, scan_to_while
from ingot.passes.expand.select_and_scatter import select_and_scatter_expander
from ingot.passes.expand.sharding_remover import domain_remover
from ingot.passes.expand.wide_arithmetic import mulhi_expander, stochastic_convert_decomposer
from ingot.passes.simplify.calls import ConditionalToSelect

STATIC_SHAPES = Pipeline(
    "static-shapes", (batch_norm_expander, DynamicBoundary(), call_meanings, DynamicPadder())
)
"""Removes dynamic dimensions; stages of a program exchange arrays without any."""

STAGED_SHAPES = Pipeline("staged-shapes", (ExactBoundary(), STATIC_SHAPES))
"""The same for a program that computes sizes anyway: it computes those of its results too."""

RUNTIME_OPS = Pipeline(
    "runtime-ops",
    (
        domain_remover,
        STATIC_SHAPES,
        select_and_scatter_expander,
        reducer_expander,
        map_to_scan,
        ConditionalToSelect(),
        async_to_sync,
        SendRecvToPermute(),
        collective_expander,
        feed_expander,
        convolution_type_canonicalizer,
        fft_lengths,
        ragged_dot_rewriter,
        scaled_dot_rewriter,
        scan_to_while,
        rng_expander,
        rng_state_expander,
        stochastic_convert_decomposer,
        mulhi_expander,
    ),
)

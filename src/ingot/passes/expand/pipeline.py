# SPDX-License-Identifier: Apache-2.0
"""The passes that rewrite ops without kernels into ops with kernels, in order.

`RUNTIME_OPS` runs first: it leaves ordinary ops and custom calls of Ingot's own targets.
Asynchronous forms are removed before the ops that they wrap.
"""

from __future__ import annotations

from ingot.hlo.rewrite.census import BOUNDED
from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.passes.expand.reducer_expander import reducer_expander
from ingot.passes.late import late

STATIC_SHAPES = Pipeline(
    "static-shapes",
    (
        late(
            "batchnorm_expander",
            "expand.batch_norm.batch_norm_expander",
            "batch-norm-training batch-norm-inference batch-norm-grad",
        ),
        late("dynamic-boundary", "expand.dynamic.boundary.dynamic_boundary", BOUNDED),
        late("call-meanings", "expand.custom_call_expander.call_meanings", "custom-call"),
        late(
            "dynamic_padder",
            "expand.dynamic.padder.dynamic_padder",
            f"{BOUNDED} dynamic-reshape set-dimension-size",
        ),
    ),
)
"""Removes dynamic dimensions; stages of a program exchange arrays without any."""

STAGED_SHAPES = Pipeline(
    "staged-shapes",
    (late("exact-boundary", "expand.dynamic.boundary.exact_boundary", BOUNDED), STATIC_SHAPES),
)
"""The same for a program that computes sizes anyway: it computes those of its results too."""

RUNTIME_OPS = Pipeline(
    "runtime-ops",
    (
        late("domain_remover", "expand.sharding_remover.domain_remover", "domain"),
        STATIC_SHAPES,
        late(
            "select-and-scatter-expander",
            "expand.select_and_scatter.select_and_scatter_expander",
            "select-and-scatter",
        ),
        reducer_expander,
        late("map-to-scan", "expand.scan.map_to_scan", "map"),
        late("conditional-to-select", "simplify.calls.conditional_to_select", "conditional"),
        late(
            "async-to-sync",
            "expand.async_pairs.async_to_sync",
            "async-start async-update async-done copy-start copy-done "
            "all-gather-start all-gather-done all-reduce-start all-reduce-done "
            "collective-permute-start collective-permute-done",
        ),
        late(
            "send-recv-to-permute",
            "expand.async_pairs.send_recv_to_permute",
            "send send-done recv recv-done",
        ),
        late(
            "collective-expander",
            "expand.collectives.collective_expander",
            "all-gather all-reduce all-to-all collective-broadcast collective-permute "
            "ragged-all-to-all reduce-scatter partition-id replica-id",
        ),
        late("feed-expander", "expand.foreign.feed_expander", "infeed outfeed"),
        late(
            "convolution-type-canonicalizer",
            "expand.product_types.convolution_type_canonicalizer",
            "convolution dot ragged-dot scaled-dot",
        ),
        late("fft-lengths", "expand.fft_lengths.fft_lengths", "fft"),
        late("ragged-dot-rewriter", "expand.ragged_dot.ragged_dot_rewriter", "ragged-dot"),
        late("scaled-dot-rewriter", "expand.ragged_dot.scaled_dot_rewriter", "scaled-dot"),
        late("scan_expander", "expand.scan.scan_to_while", "scan"),
        late("rng-expander", "expand.rng.rng_expander", "rng"),
        late("rng-state-expander", "expand.rng.rng_state_expander", "rng-get-and-update-state"),
        late(
            "stochastic_convert_decomposer",
            "expand.wide_arithmetic.stochastic_convert_decomposer",
            "stochastic-convert",
        ),
        late("mulhi-expander", "expand.wide_arithmetic.mulhi_expander", "mulhi"),
    ),
)

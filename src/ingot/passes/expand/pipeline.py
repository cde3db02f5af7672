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
            "expand.batch_norm",
            "batch-norm-training batch-norm-inference batch-norm-grad",
        ),
        late("dynamic-boundary", "expand.dynamic.boundary", BOUNDED),
        late("call-meanings", "expand.custom_call_expander", "custom-call"),
        late(
            "dynamic_padder",
            "expand.dynamic.padder",
            f"{BOUNDED} dynamic-reshape set-dimension-size",
        ),
    ),
)
"""Removes dynamic dimensions; stages of a program exchange arrays without any."""

STAGED_SHAPES = Pipeline(
    "staged-shapes",
    (late("exact-boundary", "expand.dynamic.boundary", BOUNDED), STATIC_SHAPES),
)
"""The same for a program that computes sizes anyway: it computes those of its results too."""

RUNTIME_OPS = Pipeline(
    "runtime-ops",
    (
        late("domain_remover", "expand.sharding_remover", "domain"),
        STATIC_SHAPES,
        late("select-and-scatter-expander", "expand.select_and_scatter", "select-and-scatter"),
        reducer_expander,
        late("map-to-scan", "expand.scan", "map"),
        late("conditional-to-select", "simplify.calls", "conditional"),
        late(
            "async-to-sync",
            "expand.async_pairs",
            "async-start async-update async-done copy-start copy-done "
            "all-gather-start all-gather-done all-reduce-start all-reduce-done "
            "collective-permute-start collective-permute-done",
        ),
        late("send-recv-to-permute", "expand.async_pairs", "send send-done recv recv-done"),
        late(
            "collective-expander",
            "expand.collectives",
            "all-gather all-reduce all-to-all collective-broadcast collective-permute "
            "ragged-all-to-all reduce-scatter partition-id replica-id",
        ),
        late("feed-expander", "expand.foreign", "infeed outfeed"),
        late(
            "convolution-type-canonicalizer",
            "expand.product_types",
            "convolution dot ragged-dot scaled-dot",
        ),
        late("fft-lengths", "expand.fft_lengths", "fft"),
        late("ragged-dot-rewriter", "expand.ragged_dot", "ragged-dot"),
        late("scaled-dot-rewriter", "expand.ragged_dot", "scaled-dot"),
        late("scan_expander", "expand.scan", "scan"),
        late("rng-expander", "expand.rng", "rng"),
        late("rng-state-expander", "expand.rng", "rng-get-and-update-state"),
        late("stochastic_convert_decomposer", "expand.wide_arithmetic", "stochastic-convert"),
        late("mulhi-expander", "expand.wide_arithmetic", "mulhi"),
    ),
)

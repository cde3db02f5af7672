# SPDX-License-Identifier: Apache-2.0
"""XLA's opcodes as text: they tell an op that Ingot lacks from a misspelt one.

Ingot's own ops are written as custom calls, so that XLA can read the text.

Source: xla/hlo/ir/hlo_opcode.h.
"""

from __future__ import annotations

_NAMES = """
    abs acos acosh add add-dependency after-all all-gather all-gather-done all-gather-start
    all-reduce all-reduce-done all-reduce-start all-to-all and asin asinh async-done async-start
    async-update atan atan2 atanh batch-norm-grad batch-norm-inference batch-norm-training bitcast
    bitcast-convert broadcast call cbrt ceil cholesky clamp collective-broadcast collective-permute
    collective-permute-done collective-permute-start collective-reduce compare complex concatenate
    conditional constant convert convolution copy copy-done copy-start cosh cosine
    count-leading-zeros custom-call divide domain dot dynamic-reshape dynamic-slice
    dynamic-update-slice erf exponential exponential-minus-one fft floor fusion gather
    get-dimension-size get-tuple-element imag infeed iota is-finite log log-plus-one logistic map
    maximum minimum mulhi multiply negate not opt-barrier or outfeed pad parameter partition-id
    popcnt power ragged-all-to-all ragged-dot real recv recv-done reduce reduce-precision
    reduce-scatter reduce-window remainder replica-id reshape reverse rng rng-bit-generator
    rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter
    select select-and-scatter send send-done set-dimension-size shift-left shift-right-arithmetic
    shift-right-logical shuffle sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh
    topk transpose triangular-solve tuple while xor
"""

XLA_OPCODES = frozenset(_NAMES.split())

NOT_IN_INGOT = {
    "atan": "released XLA's parser does not know it yet; write atan2(x, 1)",
    "collective-reduce": "released XLA's parser does not know it yet, and nothing makes it",
    "shuffle": "released XLA's parser does not know it yet, and nothing makes it",
}
"""The opcodes of XLA that are left out, and why; every other one is in the op table."""

INGOTS_OWN = {
    "erfc": "XLA computes it by a formula of 75 operations, 64 ulp away; JAX's `gelu` calls it",
}
"""The opcodes that XLA does not have, and why. Texts and protos have a custom call instead."""

TARGETS = {name: f"ingot.{name}" for name in INGOTS_OWN}
"""The custom calls' targets."""

OWN_OF_TARGET = {target: name for name, target in TARGETS.items()}

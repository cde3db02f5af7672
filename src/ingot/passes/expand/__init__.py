# SPDX-License-Identifier: Apache-2.0
"""Expansion: rewrites ops that no emitter supports into ops that emitters support.

`pipeline` lists what runs first. By what the passes expand:

* sizes: `dynamic` (bounded dimensions), `fft_lengths`;
* calls: `custom_call_expander`, `foreign` (feeds), `lapack_calls`, `small_matrices`;
* devices: `collectives`, `async_pairs`, `sharding_remover`;
* ops with a computation: `reducer_expander`, `scan`, `select_and_scatter`;
* products: `product_types`, `ragged_dot` (with `ragged_tiles`); `batch_norm`;
* random numbers: `rng` (with `counters`);
* element types: `normalization`, `wide_arithmetic`, `complex_expander`.
"""

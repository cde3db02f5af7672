# SPDX-License-Identifier: Apache-2.0
"""Fusion: what becomes one kernel.

`fusion` is the pass; `attention` runs before it. `decide` says which producer joins which consumer:
it grows `groups`, asks `legality` what may share a kernel (`products` of contractions), `recompute`
what may be computed several times, and `kept_apart` what a consumer would read slowly. `outline`
makes each group a `fusion` instruction.
"""

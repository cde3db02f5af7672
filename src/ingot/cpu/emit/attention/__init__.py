# SPDX-License-Identifier: Apache-2.0
"""Attention as LLVM functions.

`kernel` runs units of query rows, which `unit` emits, and `tiles` where products are of tiles;
`rows` is their softmax.
"""

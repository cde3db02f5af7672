# SPDX-License-Identifier: Apache-2.0
"""Sorts and selections: kernels from fused computations, and how their rows are divided.

`sort` makes a `SortKernel`; sorts by one key have integer `keys`; short rows become a loop kernel,
a sorting `network`. `topk` makes a `TopKKernel`. Their code is `cpu.emit.sort`.
"""

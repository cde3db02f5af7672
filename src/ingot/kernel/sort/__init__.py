# SPDX-License-Identifier: Apache-2.0
"""Sorts and selections: `SortKernel` and `TopKKernel` from fused computations."""

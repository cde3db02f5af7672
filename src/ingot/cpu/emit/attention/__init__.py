# SPDX-License-Identifier: Apache-2.0
"""Attention as LLVM functions: `kernel` walks units of query rows, `rows` is their softmax."""

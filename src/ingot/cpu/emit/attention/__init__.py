# SPDX-License-Identifier: Apache-2.0
"""Attention as LLVM functions: units of query rows, their softmax, a check of values."""

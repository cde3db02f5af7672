# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms as LLVM functions: vectors hold one element of several sequences each."""

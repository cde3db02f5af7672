# SPDX-License-Identifier: Apache-2.0
"""Emitters of GPU kernels: LLVM IR for NVPTX, on the emission that every target shares.

`function` opens a kernel and says how values are loaded and stored, `kernel` has the table of
emitters by strategy; each other file spells out a strategy. Invariant: they choose nothing.
"""

# SPDX-License-Identifier: Apache-2.0
"""Contractions as LLVM functions: packing, micro-kernels, epilogues; drivers of plain products."""

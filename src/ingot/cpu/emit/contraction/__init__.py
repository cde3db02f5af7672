# SPDX-License-Identifier: Apache-2.0
"""Contractions as LLVM functions, and the micro-kernels that all products are made of.

`kernel` makes the function of a contraction in loops of its own. Operands are packed (`packing`; a
convolution's input by `patches`), register blocks multiplied (`register_blocks`), and an `epilogue`
takes the sums.

A register block is code of `microkernel` or `dot_products`, with `words` for two or four products
in one instruction, and `lane_totals`; `block_function` says how such functions are named and
called. Drivers of plain products, convolutions and attention call the same ones.
"""

# SPDX-License-Identifier: Apache-2.0
"""The drivers of plain products, native functions of every size: one for each variant.

`call` says which driver runs a product of `kernel.product`, and with which numbers. The drivers:
`driver` (its units as they come), `packed_ahead` (operands packed in a phase before),
`small_matrices` (many products, each a register block). They share `parts` (variants, units,
micro-kernels), `register_blocks` and `packing`; words of several factors are packed by
`word_packing`, and `tiles` has the micro-kernels of AMX.
"""

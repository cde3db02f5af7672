# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions.

`kernel` makes the function; units and their passes are what every target shares
(`ingot.emit.loop`). Each other module emits the units of one strategy: `pieces`, square tiles
(`tile`), rows joined (`rows`), transposed or gathered, reductions that are split, updates in order
(`staged`). `box_copies` is library code.
"""

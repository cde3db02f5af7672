# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions.

`kernel` makes the function; units and their passes are what every target shares
(`ingot.emit.loop`). Each other module emits the units of one or two strategies: `pieces` of a grid,
square tiles (`tile`), rows joined or transposed (`rows`), gathered or in a nest (`gathered_rows`),
reductions that are split (`split`), updates in order (`staged`). `box_copies` is library code.
"""

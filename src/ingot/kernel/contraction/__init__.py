# SPDX-License-Identifier: Apache-2.0
"""Contractions: kernels around a matrix product, with prologues and epilogues.

`build` makes them. Their operands lie in memory as `operands` says. How one runs in loops of its
own is decided by `schedule`, which asks for the sums that registers hold (`register_block`), for
the rows and columns of a unit (`unit_blocks`), and where the rhs is read (`rhs_placement`). `plan`
adds the micro-kernels to call (`micro_blocks`) and the epilogue's lanes (`epilogue`).

Plain products run in a driver of the library instead: `kernel.product`.
"""

# SPDX-License-Identifier: Apache-2.0
"""Contractions: kernels around a matrix product, with prologues and epilogues.

`build` makes them, `schedule` and `register_block` say how they run. Those that
need no code of their own are plain products: `product`, with its operands, form and blocks.
"""

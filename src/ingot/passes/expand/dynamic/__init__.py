# SPDX-License-Identifier: Apache-2.0
"""Bounded dynamic dimensions: every array at its bound, its sizes beside it.

`boundary` does that to the program's parameters and results, `padder` to all computations. For the
padder, `rewriter` walks one computation, and `moves` finds elements across the border of a size.
"""

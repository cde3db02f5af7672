# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions.

`kernel` makes the function; units and their passes are what every target shares
(`ingot.emit.loop`). The others are forms of these: tiles, pieces, rows joined or transposed,
splits, updates in order.
"""

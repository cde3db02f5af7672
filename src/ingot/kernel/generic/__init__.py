# SPDX-License-Identifier: Apache-2.0
"""Loop kernels that need no code of their own: the same code serves every size.

`generalize` replaces the numbers of a kernel by sizes. `reduction` and `indexing` (gathers,
scatters and `iota`) find kernels whose generic kernel is library code. `box_copies` describes
copies of boxes by a table. Asked by the strategies of `cpu.strategies.generic_kernels`.
"""

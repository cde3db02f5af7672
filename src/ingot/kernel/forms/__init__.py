# SPDX-License-Identifier: Apache-2.0
"""Loop kernels that need no code of their own: the same code serves every size.

`form` replaces the numbers of a kernel by sizes; `plain_reduction`, `plain_indexing` (gathers and
scatters) and `iota` find kernels whose form is library code. `box_copies` describes copies of boxes
by a table.
"""

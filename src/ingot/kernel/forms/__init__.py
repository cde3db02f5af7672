# SPDX-License-Identifier: Apache-2.0
"""Loop kernels that need no code of their own: the same code serves every size.

`form` puts sizes in place of a kernel's numbers; `plain_reduction`, `plain_indexing` (gathers and
scatters) and `positions` say which kernels the library runs so. `moves` are tables of boxes.
"""

# SPDX-License-Identifier: Apache-2.0
"""Loop kernels at any lane count, as every target emits them.

A kernel's `units` of work run its passes (`body`), whose reductions are held by `folds`; indices of
gathers may be computed ahead (`gather_indices`).
"""

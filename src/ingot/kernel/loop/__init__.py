# SPDX-License-Identifier: Apache-2.0
"""Loop kernels: how a fused computation becomes grid, passes, folds and stores.

`build` makes them, `update` those that update an array in place; `argminmax` recognises the folds
of argmin and argmax. `kernel.passes` rewrites what is built here.
"""

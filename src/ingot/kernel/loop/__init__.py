# SPDX-License-Identifier: Apache-2.0
"""Loop kernels: how a fused computation becomes grid, passes, folds and stores.

`build` makes them, with `scan` for running values and `update` for updates in place. The others
rewrite a kernel that is built: axes become one (`collapse`, `parts`, `short_rows`), short loops are
written out (`unroll`), masks and choices fall away (`inside`, `choices`), rows are kept (`keep`).
"""

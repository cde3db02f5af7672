# SPDX-License-Identifier: Apache-2.0
"""Loop kernels: how a fused computation becomes grid, passes, folds and stores.

`build` makes them, with `update` for updates in place. `pipeline` lists the kernel passes that
rewrite them: axes become one (`collapse`, `short_rows`), short loops are written out (`unroll`,
`unroll_stacks`, `unroll_and_jam`), masks and choices fall away (`unmask_loads`,
`select_to_index`), indices get narrower (`narrow_indices`), and values that a later pass needs
again are cached or read back (`cache_rows`).
`argminmax` recognises the folds of argmin and argmax.
"""

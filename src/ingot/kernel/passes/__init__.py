# SPDX-License-Identifier: Apache-2.0
"""Kernel passes: loop kernels rewritten, kernel to kernel, before they are scheduled.

`pipeline` lists them in the order in which they run, with the reasons for it:

* indices that axes determine become plain ones (`known_indices`), others are computed in s32 where
  it holds them (`narrow_values`);
* axes become one where all indices walk them as one (`collapse`), several where indices take them
  apart (`split_axes`, `split_rows`), and short rows are laid end to end (`short_rows`);
* short loops are written out: windows and rows (`unroll`), periods (`unroll_phases`), stacks
  (`unroll_stacks`), and short axes of the grid beside a long fold (`unroll_and_jam`);
* masks and choices fall away (`select_to_index`, `unmask_loads`);
* values that a later pass needs again are cached or read back (`cache_rows`).
"""

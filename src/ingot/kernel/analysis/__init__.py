# SPDX-License-Identifier: Apache-2.0
"""Analyses of loop kernels: facts that `passes` rewrite by and that `schedule` is made of.

* `ranges`: what is known of indices and comparisons where axes stay within ranges;
* the axis of lanes (`vector_axis`), how many they are (`lane_counts`), where they read
  (`lane_offsets`), which loads are gathers (`gathers`);
* `work`: how much of it there is, and what a share of it is;
* `peeled_rows`: rows whose vectors are aligned to cache lines;
* `row_nests`: short rows that are walked in a nest of loops.

Invariant: a fact depends on the kernel, its extents and the target's vectors alone.
"""

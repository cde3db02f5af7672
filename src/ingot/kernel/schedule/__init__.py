# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: vector axis, lanes, tiles, pieces, and the shares of threads.

`decide` asks the strategies, in order; `loop_schedule` is the answer; `request` is what a strategy
is asked about, and computes each fact once:

* facts: the axis of lanes (`vector_axis`), how many they are (`lane_counts`), where they read
  (`lane_offsets`), which loads are gathers (`gathers`), how much work there is (`work`);
* strategies: folds of many rows (`row_folds`), short rows in a nest (`row_nests`), large folds in
  parts (`splits`), transposes in squares (`tiles`), grids in pieces without masks (`pieces`,
  whose kernels `piece_loops` makes), updates in order (`serial`).

`text` prints schedules, `verifier` says which are legal. Emitters (`emit.loop`, `cpu.emit.loop`)
spell the answers out and decide nothing.
"""

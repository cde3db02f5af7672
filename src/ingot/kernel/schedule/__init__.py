# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: vector axis, lanes, tiles, pieces, and the shares of threads.

`decide` asks the strategies, in order; `loop_schedule` is the answer; `request` is what a strategy
is asked about, and computes each fact (`kernel.analysis`) once. The strategies: folds of many rows
(`row_folds`), short rows in a nest or gathered (`short_rows`), large folds in parts (`splits`),
transposes in squares (`tiles`), grids in pieces without masks (`pieces`, of which `piece_loops`
makes kernels), updates in order (`serial`). Each of these files has the strategy's record, which
says all that is special about it, and decides its numbers.

`text` prints schedules, `verifier` says which are legal. Emitters (`emit.loop`, `cpu.emit.loop`)
spell the answers out and decide nothing.
"""

# SPDX-License-Identifier: Apache-2.0
"""Loops: fewer trips, less state, less work in each trip.

`simplifier` removes loops and elements of their state. `invariants` moves values that do not change
out of the loop, `stacks` makes arrays that it need not fill, `dots` makes one product of those of
all trips; they find `rows` of arrays that a trip reads, and widen the loop's `state`.
`trip_count` notes how often a loop runs, once loops change no more.
"""

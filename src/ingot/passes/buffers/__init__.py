# SPDX-License-Identifier: Apache-2.0
"""Buffers: where every value lives, in memory of the execution ABI.

`double_loops` runs the bodies of loops twice where that saves copies. Then come the passes of
`pipeline`: `flatten` gives each computation one caller, the order is scheduled (`passes.schedule`),
and `copy_insertion` adds the copies that are needed. It asks `coalesce`, which joins values that
should share a buffer.

`assignment` gives each class of values a buffer, `packing` an offset in the arena;
`buffer_table` is the result, `contents` prints it, `verify` checks it by running the schedule.
"""

# SPDX-License-Identifier: Apache-2.0
"""Schedules for GPUs: which strategy a kernel takes, and how many blocks of threads run it.

`strategies` holds the records, `decide` the table in priority order; the other files say which
kernels a strategy takes. Invariant: the answer depends on the kernel, its sizes and the machine, so
results do not depend on the order in which a device runs blocks; floats are never added by atomic
operations.

The other files, those that import others first:

* `text`: schedules of a GPU as text: what `GpuExecutable.as_text("schedule")` shows;
* `few_rows`: products of few rows or few columns (decoding, matrix times vector) as folds;
* `fourier`: Fourier transforms: the stages of `kernel.fft.build`, one launch each;
* `in_order`: updates in order (scatter): which of them cannot meet, so that they may run in
  parallel;
* `scans`: which scans a warp walks: long ones, dense in memory, of one op with an identity;
* `selections`: the first elements of rows (top-k): blocks select them;
* `splits`: long folds of few blocks, cut into two stages: folds of parts, then the fold of their
  results;
* `tensor_cores`: which products run on tensor cores, and how their operands come into shared
  memory;
* `transposes`: which kernels read across the axis of their stores, and are better off with tiles;
* `contractions`: matrix products: tiles of the result, one for each block, from tiles of both
  operands;
* `folds`: folds that several threads share: which may, and whether along rows or along columns;
* `sorts`: blocks sort tiles, then stages merge runs of a tile, of two tiles, ... till a row is one;
* `threads`: when each grid point has a thread of its own: whenever points are independent;
* `parts`: long sums of products with few blocks: parts of k have blocks of their own;
* `sums`: what schedules of products share: sums as folds of a loop, and how operands lie in memory.
"""

# SPDX-License-Identifier: Apache-2.0
"""Emitters of GPU kernels: LLVM IR for NVPTX, on the emission that every target shares.

`function` opens a kernel and says how values are loaded and stored, `kernel` has the table of
emitters by strategy; each other file spells out a strategy. Invariant: they choose nothing.

The other files, those that import others first:

* `fourier`: Fourier transforms of a block's sequences: Stockham passes between two tiles of complex
  numbers;
* `scans`: scans by a warp: each step takes an element for each lane;
* `selections`: the first elements so far, and a tile of new ones, are sorted in shared memory;
* `tensor_cores`: tiled matrix products on tensor cores: warps multiply fragments of tiles
  (mma.sync);
* `transposes`: transposed loads through tiles in shared memory;
* `contractions`: tiled matrix products, plain ones for every element type: operands through shared
  memory;
* `groups`: several threads per grid point: they take the elements of each pass in turn, and join
  folds;
* `sorts`: a tile of elements as numbers in shared memory, in a bitonic network; merges of two runs;
* `threads`: a thread per grid point: a unit of the shared loop emission with one lane.
"""

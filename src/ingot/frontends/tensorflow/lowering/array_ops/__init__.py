# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements: shapes, slices, joins, diagonals, and selections whose size is data.

* `shaping`: ops that move elements: shapes, joins, splits, fills, tiles, ranges;
* `slicing`: slices, their gradients and updates, and padding;
* `layouts`: smaller ops that rearrange: sequences, data formats, gradients of mirrored padding;
* `blocks`: space, depth and batch: ops that move blocks of an image between dimensions;
* `diagonals`: diagonals of matrices, one-hot rows, bands and triangles;
* `data_sizes`: ops whose results are as large as the data says: positions, partitions, segments;
* `stitching`: stitches and differences of lists: known at compile time where shapes follow, else at
  run time.
"""

# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements: views, slices, joins, gathers, scatters, masks.

* `index_checks`: indices of PyTorch's ops: counted from the front, and checked;
* `searching`: searches in sorted rows, segments, and histograms;
* `shaping`: ops that only move elements (views, permutations, slices, concatenation), and
  constants;
* `strides`: views by strides, and writes into parts of a tensor: as_strided, slice_scatter;
* `indexing`: indexing by tensors: `x[i, :, j]` and its writes, index_select, gather, take,
  embeddings;
* `scatter`: `x[i, index[i, j]] = src[i, j]`, replaced or combined; and by slices, index_reduce;
* `masks`: indices that a mask selects, and counts of numbers, for a known size: see
  `passes.data_sizes`;
* `distinct`: the distinct elements of an array, or slices of it: see `passes.data_sizes`;
* `diagonals`: diagonals of matrices, and the indices of triangles;
* `jagged`: rows of many lengths, one after the other (nested tensors of the layout `jagged`), and
  padded;
* `overlap_add`: unfold_backward: windows of a dimension are added where they overlap, as istft
  does.
"""

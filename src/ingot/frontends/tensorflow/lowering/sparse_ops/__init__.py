# SPDX-License-Identifier: Apache-2.0
"""Sparse and ragged tensors, and counts over them.

* `sparse`: sparse tensors: products, sums, orders and elementwise ops of indices `[n, rank]` and
  values;
* `structure`: sparse tensors whose indices change: reshapes, concatenations, slices, splits and
  sums;
* `filled_rows`: rows without a value get one: what a lookup of sparse or ragged words does before
  it starts;
* `ragged`: ragged tensors: ranges, gathers, and dense or sparse tensors of rows of different
  lengths;
* `counts`: how often each number comes: in a vector, or in each row of a matrix, ragged or sparse.
"""

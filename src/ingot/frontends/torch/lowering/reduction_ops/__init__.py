# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, softmax and sorts along dimensions.

* `reduction`: reductions over dimensions: sums, products, extremes, truth, variances, norms;
* `cumulative`: running sums, products, extremes and log-sum-exps along a dimension;
* `softmax`: softmax, log-softmax and their derivatives;
* `sorting`: sorting, selection of the greatest and k-th elements, medians, modes, searches in
  sorted rows.
"""

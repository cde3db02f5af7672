# SPDX-License-Identifier: Apache-2.0
"""Elementwise mathematics, reductions, scans, Fourier transforms and sorts.

* `binary`: elementwise ops of two or more operands: arithmetic, comparison, logic, selection;
* `unary`: elementwise ops of one operand, and the gradients of those that have an op of their own;
* `special`: special functions: the rules of the ops whose mathematics all front ends share;
* `cumulative`: cumulative sums, products and log-sum-exps along an axis, by `building.scans`;
* `reduction`: reductions over axes, and argmax and argmin;
* `spectral`: Fourier transforms of the last one, two or three dimensions;
* `sorting`: top-k, searches in sorted rows, buckets.
"""

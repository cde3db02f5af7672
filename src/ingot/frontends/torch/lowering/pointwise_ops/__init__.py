# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops: arithmetic, comparisons, bits, activations, special functions.

* `pointwise`: elementwise rules from functions of a builder and operands, shared by the families of
  rules;
* `activation`: activations, and gradients of some, that PyTorch does not decompose;
* `arithmetic`: sums, products, quotients in every rounding, powers, extremes, and functions of
  integers;
* `bits`: ops on bits: of integers (shifts, logic), and of floats (signs, exponents, kinds of
  values);
* `complex_numbers`: parts, conjugates, angles;
* `elementwise`: elementwise ops that are one opcode, or nearly: transcendentals, comparisons,
  logic, selection;
* `special`: special functions: gamma's and the error function's relatives, Bessel functions,
  polynomials.
"""

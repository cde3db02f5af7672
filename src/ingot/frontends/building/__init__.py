# SPDX-License-Identifier: Apache-2.0
"""What the front ends share when they write HLO: idioms of arrays, and special functions.

The packages and files, importers first:

* `special_functions`: functions that HLO has no opcode for: gamma's relatives, Bessel functions,
  integrals, polynomials;
* `matrix_roots`: square roots of matrices, by their Schur form;
* `pooling`: windowed reductions, and gradients put back into the windows: what pools are made of;
* `sampling`: resampling along one axis: each element of the result is a weighted sum of a few of
  the source;
* `checks`: checks at run time: a program ends with an error unless all flags of an array are true;
* `complex_parts`: complex numbers as pairs of real ones, the last dimension, and back;
* `convolution`: convolutions and their gradients, each one HLO `convolution`, in any layout of
  dimensions;
* `division`: quotients and remainders that round down, and integer functions made of them;
* `extremes`: the greatest or least element along an axis together with its index;
* `float_bits`: floats by their bits: signs, neighbours, significands and exponents, powers and
  logarithms of 2;
* `indexing`: gathers and scatters as HLO has them, at indices that arrays give;
* `linalg`: factorizations of matrices, as calls of LAPACK, and what belongs to them;
* `scans`: each element folded with all before it along an axis, one array or several together;
* `softmax`: softmax along an axis, its logarithm and their derivatives;
* `sorting`: stable sorts of several arrays by the first of them;
* `products`: matrix products as HLO has them: dot with dimension numbers;
* `arrays`: the HLO builder with the idioms that the rules of every front end use.
"""

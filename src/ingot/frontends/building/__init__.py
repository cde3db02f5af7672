# SPDX-License-Identifier: Apache-2.0
"""What the front ends share when they write HLO: idioms of arrays, and special functions.

* `airy`: Airy's function Ai, computed in f64;
* `bessel`: Bessel functions of the first and second kind, the modified ones K0 and K1, spherical
  j0;
* `checks`: checks at run time: a program ends with an error unless all flags of an array are true;
* `complex_parts`: complex numbers as pairs of real ones, the last dimension, and back;
* `division`: quotients and remainders that round down, and integer functions made of them;
* `extremes`: the greatest or least element along an axis together with its index;
* `float_bits`: floats by their bits: signs, neighbours, significands and exponents, powers and
  logarithms of 2;
* `incomplete`: incomplete gamma and beta functions, and the derivatives of the gamma ones in a;
* `integrals`: integrals that are functions of their own: Dawson's, the exponential, Fresnel's,
  Spence's;
* `matrix_roots`: square roots of matrices, by their Schur form;
* `normal`: the quantile of the normal distribution, computed in f64;
* `orthogonal_polynomials`: orthogonal polynomials of degrees that are data: Chebyshev's, Hermite's,
  Laguerre's, Legendre's;
* `pooling`: windowed reductions, and gradients put back into the windows: what pools are made of;
* `sampling`: resampling along one axis: each element of the result is a weighted sum of a few of
  the source;
* `scans`: each element folded with all before it along an axis, one array or several together;
* `softmax`: softmax along an axis, its logarithm and their derivatives;
* `sorting`: stable sorts of several arrays by the first of them;
* `convolution`: convolutions and their gradients, each one HLO `convolution`, in any layout of
  dimensions;
* `incomplete_large`: incomplete gamma functions of large a, where sums take as many terms as the
  root of a;
* `indexing`: gathers and scatters as HLO has them, at indices that arrays give;
* `linalg`: factorizations of matrices, as calls of LAPACK, and what belongs to them;
* `zeta_bessel`: Hurwitz's zeta function, polygamma functions, and modified Bessel functions;
* `error_function`: the scaled complementary error function, for which HLO has no opcode;
* `products`: matrix products as HLO has them: dot with dimension numbers;
* `special`: special functions that HLO has no opcode for: gamma's relatives, inverse error
  function;
* `reals`: f64 arrays with Python's operators, so that a formula reads as one;
* `arrays`: the HLO builder with the idioms that the rules of every front end use.
"""

# SPDX-License-Identifier: Apache-2.0
"""Special functions that HLO has no opcode for: series, continued fractions, approximations.

They are computed in f64 with Python's operators on `reals`, so that a formula reads as one.

* `reals`: f64 arrays with Python's operators, so that a formula reads as one;
* `special`: special functions that HLO has no opcode for: gamma's relatives, inverse error
  function;
* `error_function`: the scaled complementary error function, for which HLO has no opcode;
* `zeta_bessel`: Hurwitz's zeta function, polygamma functions, and modified Bessel functions;
* `bessel`: Bessel functions of the first and second kind, the modified ones K0 and K1, spherical
  j0;
* `airy`: Airy's function Ai, computed in f64;
* `incomplete`: incomplete gamma and beta functions, and the derivatives of the gamma ones in a;
* `incomplete_large`: incomplete gamma functions of large a, where sums take as many terms as the
  root of a;
* `integrals`: integrals that are functions of their own: Dawson's, the exponential, Fresnel's,
  Spence's;
* `normal`: the quantile of the normal distribution, computed in f64;
* `orthogonal_polynomials`: orthogonal polynomials of degrees that are data: Chebyshev's, Hermite's,
  Laguerre's, Legendre's.
"""

# SPDX-License-Identifier: Apache-2.0
"""Matrices: products, factorizations and solves.

* `linalg`: linear algebra: factorizations, solves, eigenvalues and what is computed from them;
* `banded`: triangular matrices of few diagonals: their systems are solved row by row;
* `tridiagonal`: tridiagonal matrices, given by their three diagonals: solves and products;
* `least_squares`: `MatrixSolveLs`, the solution of A x = b with the smallest error, or norm;
* `matmul`: matrix products: MatMul, BatchMatMul, Einsum, and the addition of biases.
"""

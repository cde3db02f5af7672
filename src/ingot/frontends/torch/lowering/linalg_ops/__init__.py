# SPDX-License-Identifier: Apache-2.0
"""Products and factorizations of matrices, distances between rows, and Fourier transforms.

* `matmul`: matrix products;
* `grouped_products`: products of groups, as mixtures of experts make them: _grouped_mm is a
  `ragged-dot`;
* `packed_weights`: weights of four bits, as PyTorch packs them for CPU: packing them, and products
  with them;
* `linalg`: linear algebra: factorizations, solves, determinants, eigenvalues, singular values;
* `pseudoinverse`: pseudoinverses of matrices: linalg_pinv;
* `distances`: distances between all pairs of rows, and their gradients;
* `spectral`: Fourier transforms over any dimensions.
"""

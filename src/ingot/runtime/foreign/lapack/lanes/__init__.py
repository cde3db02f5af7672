# SPDX-License-Identifier: Apache-2.0
"""LAPACK's routines on batches of small matrices, each matrix in a lane of every vector.

`group` moves matrices into lanes and back; `factors` has factorizations, `jacobi` eigenvalues and
singular values.

The other files, those that import others first:

* `groups`: the routines that run in lanes, and the loop over the groups of a batch.
"""

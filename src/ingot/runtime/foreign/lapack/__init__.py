# SPDX-License-Identifier: Apache-2.0
"""The `lapack_*_ffi` custom-call targets that JAX emits on CPU, on SciPy's LAPACK.

`routines` is the table of targets and of LAPACK's arguments, `adapter` emits the code of one call
site from it, `library` finds LAPACK's functions, `targets` registers the names.

The other files, those that import others first:

* `shapes`: checks of the arrays of a LAPACK call: LAPACK trusts its caller;
* `expressions`: sizes in the table of LAPACK routines, as emitted code: `max(1,m)`, `2*n`,
  tau.last;
* `lanes`: LAPACK's routines on batches of small matrices, each matrix in a lane of every vector;
* `one_thread`: small matrices in one thread: OpenBLAS's own threads are switched off around their
  calls;
* `vectors`: small loops beside LAPACK: is everything finite, conjugate pairs as vectors, rows
  exchanged.
"""

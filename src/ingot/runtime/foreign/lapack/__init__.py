# SPDX-License-Identifier: Apache-2.0
"""The `lapack_*_ffi` custom-call targets that JAX emits on CPU, on SciPy's LAPACK.

`routines` is the table of targets and of LAPACK's arguments, `adapter` emits the code of one call
site from it, `library` finds LAPACK's functions, `targets` registers the names.
"""

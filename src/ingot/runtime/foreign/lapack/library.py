# SPDX-License-Identifier: Apache-2.0
"""Where LAPACK and BLAS are: the addresses of SciPy's functions, without a C compiler.

`scipy.linalg.cython_lapack` and `cython_blas` offer every routine as a C function in a capsule;
they are what jaxlib calls too. Invariant: integers are 32 bits, as every caller here assumes; a
SciPy that was built otherwise is refused.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ingot.runtime.foreign.capsules import capsule_address, capsule_name
from ingot.support.diagnostics import UnsupportedError


@cache
def function_address(name: str, *, is_blas: bool = False) -> int:
    """Return the address of a routine (`dpotrf`).

    Raises:
        UnsupportedError: SciPy's routine does not take 32-bit integers.
    """
    module: Any = importlib.import_module(
        "scipy.linalg.cython_blas" if is_blas else "scipy.linalg.cython_lapack"
    )
    capsule = module.__pyx_capi__[name]
    signature = capsule_name(capsule)
    if b"int *" not in signature or b"long" in signature or b"int64" in signature:
        raise UnsupportedError(
            f"SciPy's {name} does not take 32-bit integers: {signature.decode()}",
            hint="install SciPy from PyPI",
        )
    return capsule_address(capsule)

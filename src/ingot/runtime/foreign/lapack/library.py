"""Where LAPACK and BLAS are: the addresses of SciPy's functions, without a C compiler.

`scipy.linalg.cython_lapack` and `cython_blas` offer every routine as a C function in a capsule;
they are what jaxlib calls too. Invariant: integers are 32 bits, as every caller here assumes; a
SciPy that was built otherwise is refused.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

from ingot.support.diagnostics import UnsupportedError


@cache
def function_address(name: str, *, is_blas: bool = False) -> int:
    """Return the address of a routine (`dpotrf`)."""
    module: Any = importlib.import_module(
        "scipy.linalg.cython_blas" if is_blas else "scipy.linalg.cython_lapack"
    )
    capsule = module.__pyx_capi__[name]
    get_name, get_pointer = _capsule_functions()
    signature: bytes = get_name(capsule)
    if b"int *" not in signature or b"long" in signature or b"int64" in signature:
        raise UnsupportedError(
            f"SciPy's {name} does not take 32-bit integers: {signature.decode()}",
            hint="install SciPy from PyPI",
        )
    return int(get_pointer(capsule, signature))


@cache
def _capsule_functions() -> tuple[Any, Any]:
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get_name, get_pointer

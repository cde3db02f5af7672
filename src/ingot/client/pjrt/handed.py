# SPDX-License-Identifier: Apache-2.0
"""Programs that are modules already when a host hands over their bytes.

A front end of this process that can read the host's own objects (JAX's are MLIR's) gives the module
beside the bytes, so that the bytes are not read again. Between front end and slots. Invariant: a
module is taken once, by the compilation of its bytes, which may change it; bytes without a module
are read.

Example:
    >>> with handed_over(b"bytes", Module("m")):
    ...     take_over(b"bytes").name, take_over(b"bytes")
    ('m', None)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ingot.hlo.module import Module

_given: dict[bytes, Module] = {}


@contextmanager
def handed_over(code: bytes, module: Module) -> Generator[None]:
    """Give `module` for `code` until the block ends."""
    _given[code] = module
    try:
        yield
    finally:
        take_over(code)


def take_over(code: bytes) -> Module | None:
    """Return the module that was given for these bytes, which the caller may change."""
    return _given.pop(code, None)

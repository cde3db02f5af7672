# SPDX-License-Identifier: Apache-2.0
"""Passing modules from a front end to the slots, past the host that passes only bytes.

A front end of this process that can read the host's own objects (JAX's are MLIR's) offers the
module of the bytes, so that they are not parsed. Invariant: a module is taken once, by the
compilation of its bytes, which may change it; bytes without a module are parsed.

Example:
    >>> from ingot.hlo.module import Module
    >>> with offer_module(b"bytes", Module("m")):
    ...     take_module(b"bytes").name, take_module(b"bytes")
    ('m', None)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.hlo.module import Module


_offered: dict[bytes, Module] = {}


@contextmanager
def offer_module(code: bytes, module: Module) -> Generator[None]:
    """Offer `module` as that of the bytes `code` until the block ends."""
    _offered[code] = module
    try:
        yield
    finally:
        take_module(code)


def take_module(code: bytes) -> Module | None:
    """Return the module that was offered for these bytes, to be changed freely; or None."""
    return _offered.pop(code, None)

# SPDX-License-Identifier: Apache-2.0
"""XLA FFI: native custom-call handlers written against `xla/ffi/api/c_api.h`.

`records` declares the C structures, `attributes` lays a call's attributes out in them, `api` is the
table of functions that a handler may call back, `adapter` emits the code from Ingot's frame to the
handler's, and `link` combines them. Version 0.3 of the API (jaxlib 0.10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.runtime.foreign.ffi.link import ffi_target

__all__ = ["ffi_target"]

__getattr__ = names_at_home(__name__, {"ffi_target": ".link"})

# SPDX-License-Identifier: Apache-2.0
"""`jax.dlpack.from_dlpack(..., copy=True)` on Ingot.

For a copy jaxlib asks its client to make a buffer of memory that may change later, which its C API
client refuses for every plugin. Here the memory is wrapped without a copy, and then copied as an
array. Invariant: the copy is complete when the call returns, since the memory may change then.

Source: jax/_src/dlpack.py, jaxlib/dlpack.cc (DLPackManagedTensorToBuffer).
"""

from __future__ import annotations

import functools
import importlib
from typing import Any


def install_dlpack() -> None:
    """Make JAX copy tensors that are imported through DLPack."""
    library: Any = importlib.import_module("jax._src.lib")._jax
    original = library.dlpack_managed_tensor_to_buffer

    @functools.wraps(original)
    def to_buffer(tensor: Any, device: Any, stream: Any, copy: bool | None, *rest: Any) -> Any:
        if not copy or "ingot" not in device.client.platform_version:
            return original(tensor, device, stream, copy, *rest)
        shared = original(tensor, device, stream, None, *rest)
        return shared.copy().block_until_ready()

    library.dlpack_managed_tensor_to_buffer = to_buffer

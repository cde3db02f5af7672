# SPDX-License-Identifier: Apache-2.0
"""`jax.debug.inspect_array_sharding`: tells the host how a value of a compiled program is divided.

The host puts the addresses of a function and its data into the config of an `InspectSharding` call.
The partitioner removes the call and records how the value is divided; the function is called during
the compilation.

Source: xla/python/inspect_sharding.h.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from ingot.client.pjrt.c_api import INTERNAL
from ingot.client.pjrt.errors import PjrtError
from ingot.formats.hlo_proto.sharding import sharding_bytes
from ingot.passes.spmd.sharding import Sharding

_CALLBACK: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_CONFIG = struct.Struct("=QQ")
"""Addresses of the function and of its data."""


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("sharding", ctypes.c_char_p),
        ("sharding_size", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
        ("error_scratch", ctypes.c_void_p),
        ("free_error", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


def tell_sharding(config: str, sharding: Sharding) -> None:
    """Call the function in `config` with a sharding.

    Raises:
        PjrtError: the config holds no function, or the function failed.
    """
    data = config.encode("utf-8", "surrogateescape")
    if len(data) != _CONFIG.size:
        raise PjrtError(INTERNAL, "InspectSharding: its config holds no function")
    function, context = _CONFIG.unpack(data)
    text = sharding_bytes(sharding.text())
    arguments = _Arguments(text, len(text))
    _CALLBACK(function)(context, ctypes.addressof(arguments))
    if arguments.error:
        message = arguments.error.decode(errors="replace")
        arguments.free_error(ctypes.addressof(arguments))
        raise PjrtError(INTERNAL, f"InspectSharding: {message}")

# SPDX-License-Identifier: Apache-2.0
"""The Grappler plug-in: TensorFlow gives it every graph of a function or session before it runs.

It is registered through ctypes, without a shared library of ours. The graph comes as bytes and goes
back as bytes: those of `optimize`, or the same where nothing is to be clustered.

Invariants: no exception passes through TensorFlow's C++ frames: a failure leaves the graph as it
was and is logged once. A plug-in cannot be unregistered, so `register` does its work only once and
`optimize` says whether there is work.
Source: TensorFlow's `c/experimental/grappler/grappler.h`.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.clustering.grappler_item import Buffer, GrapplerItem

Optimize = Callable[[bytes, GrapplerItem], "bytes | None"]
"""Takes a GraphDef; returns another one in its place, or None for the same."""

_logger = logging.getLogger("ingot.tensorflow")

_CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p)
_OPTIMIZE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.POINTER(Buffer),
    ctypes.c_void_p,
    ctypes.POINTER(Buffer),
    ctypes.c_void_p,
)
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_FLAGS = 19
"""How many of Grappler's own optimizers a plug-in could turn off; this one leaves them alone."""


class _Configs(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("flags", ctypes.c_int * _FLAGS),
    )


class _Optimizer(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("create", _CREATE),
        ("optimize", _OPTIMIZE),
        ("destroy", _DESTROY),
    )


class _Registration(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("ext", ctypes.c_void_p),
        ("version", ctypes.c_int32 * 3),
        ("device_type", ctypes.c_char_p),
        ("configs", ctypes.POINTER(_Configs)),
        ("optimizer", ctypes.POINTER(_Optimizer)),
    )


_libc: Any = ctypes.CDLL(None)
_libc.malloc.restype, _libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
_kept: list[Any] = []


def register(optimize: Optimize) -> None:
    """Let TensorFlow give its graphs to `optimize` from now on; only the first call counts."""
    if _kept:
        return

    def run(_: Any, given: Any, item: int, result: Any, status: int) -> None:
        graph = ctypes.string_at(given.contents.data, given.contents.length)
        made = _guarded(optimize, graph, item)
        _hand_over(graph if made is None else made, result.contents)
        capi.function("TF_SetStatus")(status, capi.OK, b"")

    def destroy(_: Any) -> None:
        """There is nothing to delete."""

    # TensorFlow asks for an address; nobody looks at it.
    functions = (_CREATE(lambda: 1), _OPTIMIZE(run), _DESTROY(destroy))

    def fill(registration: int, status: int) -> None:
        found = _Registration.from_address(registration)
        found.struct_size = ctypes.sizeof(_Registration)
        found.device_type = b"CPU"
        found.configs.contents.struct_size = _Configs.flags.offset + 4 * _FLAGS
        optimizer = found.optimizer.contents
        optimizer.struct_size = ctypes.sizeof(_Optimizer)
        optimizer.create, optimizer.optimize, optimizer.destroy = functions
        capi.function("TF_SetStatus")(status, capi.OK, b"")

    fill_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    entry = fill_type(fill)
    _kept.extend((functions, entry))
    status = ctypes.c_int64(0)  # an absl::Status, which the function returns in memory
    init = capi.function(capi.INIT_GRAPH_PLUGIN)
    init(ctypes.addressof(status), ctypes.cast(entry, ctypes.c_void_p))


def _guarded(optimize: Optimize, graph: bytes, address: int) -> bytes | None:
    item = GrapplerItem(address)
    try:
        return optimize(graph, item)
    except BaseException as error:
        _tell(type(error).__name__, str(error))
        _logger.debug("clustering failed", exc_info=True)
        return None
    finally:
        item.close()


@lru_cache(maxsize=64)
def _tell(kind: str, text: str) -> None:
    """Log a failure, each once."""
    _logger.warning("Ingot: a graph is not clustered: %s: %s", kind, text)


def _hand_over(graph: bytes, buffer: Buffer) -> None:
    """Give TensorFlow bytes that it frees itself."""
    memory = _libc.malloc(max(1, len(graph)))
    ctypes.memmove(memory, graph, len(graph))
    buffer.data, buffer.length = memory, len(graph)
    # `free` takes the address, and does not look at the length that comes after it.
    buffer.deallocate = ctypes.cast(_libc.free, ctypes.c_void_p).value

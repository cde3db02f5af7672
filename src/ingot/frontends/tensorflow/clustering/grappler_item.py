# SPDX-License-Identifier: Apache-2.0
"""What Grappler's plug-in interface tells of a graph: fetched nodes, kept nodes, shapes.

Source: TensorFlow's `c/experimental/grappler/grappler.h`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.api.modules import op_performance_data_pb2


class Buffer(ctypes.Structure):
    """`TF_Buffer`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocate", ctypes.c_void_p),
    )


class GrapplerItem:
    """A graph that Grappler gives to the plug-in; valid while the plug-in runs."""

    def __init__(self, address: int) -> None:
        """Refer to the `TF_GrapplerItem` at `address`."""
        self._address = address
        self._properties: int | None = None
        self._shapes: dict[str, tuple[Any, ...]] = {}

    def fetched(self) -> frozenset[str]:
        """Return the names of the nodes whose outputs the caller wants."""
        return self._names("TF_GetFetchNodesList")

    def kept(self) -> frozenset[str]:
        """Return the names of the nodes that must stay: feeds, fetches and others."""
        return self._names("TF_GetNodesToPreserveList")

    def _names(self, function: str) -> frozenset[str]:
        count, size = ctypes.c_int(), ctypes.c_size_t()
        with capi.Status() as status:
            references = (ctypes.byref(count), ctypes.byref(size), status.pointer)
            capi.function(f"{function}Size")(self._address, *references)
            status.check("say how many nodes must stay")
            texts = (ctypes.c_void_p * max(1, count.value))()
            lengths = (ctypes.c_size_t * max(1, count.value))()
            storage = ctypes.create_string_buffer(max(1, size.value))
            room = (texts, lengths, count.value, storage, size.value, status.pointer)
            capi.function(function)(self._address, *room)
            status.check("say which nodes must stay")
            found = zip(texts[: count.value], lengths[: count.value], strict=True)
            names = [ctypes.string_at(text, length).decode() for text, length in found]
        return frozenset(name.removeprefix("^").partition(":")[0] for name in names)

    def shapes(self, node: str) -> tuple[Any, ...]:
        """Return the shapes (protos) of a node's outputs; empty if they are not known."""
        if node not in self._shapes:
            self._shapes[node] = self._asked_shapes(node)
        return self._shapes[node]

    def _asked_shapes(self, node: str) -> tuple[Any, ...]:
        properties = self._inferred()
        count = ctypes.c_int()
        with capi.Status() as status:
            size = capi.function("TF_GetOutputPropertiesListSize")
            size(properties, node.encode(), ctypes.byref(count), status.pointer)
            if capi.function("TF_GetCode")(status.pointer) or not count.value:
                return ()
            buffers = (ctypes.c_void_p * count.value)()
            for index in range(count.value):
                buffers[index] = capi.function("TF_NewBuffer")()
            given = (node.encode(), buffers, count.value, status.pointer)
            capi.function("TF_GetOutputPropertiesList")(properties, *given)
            shapes = [_shape(Buffer.from_address(item or 0)) for item in buffers]
            for item in buffers:
                capi.function("TF_DeleteBuffer")(item)
        return tuple(shapes)

    def close(self) -> None:
        """Give back what was inferred."""
        if self._properties is not None:
            capi.function("TF_DeleteGraphProperties")(self._properties)
            self._properties = None

    def _inferred(self) -> int:
        if self._properties is None:
            made: int = capi.function("TF_NewGraphProperties")(self._address)
            self._properties = made
            with capi.Status() as status:
                # Nothing may be assumed of feeds: the caller gives what shapes it likes.
                capi.function("TF_InferStatically")(made, 0, 0, 0, 0, status.pointer)
                status.check("infer the shapes of a graph")
        return self._properties


def _shape(buffer: Buffer) -> Any:
    if not buffer.data:
        return None
    found = op_performance_data_pb2.OpInfo.TensorProperties()
    found.ParseFromString(ctypes.string_at(buffer.data, buffer.length))
    for dim in found.shape.dim:
        dim.size = max(dim.size, -1)
    return found.shape

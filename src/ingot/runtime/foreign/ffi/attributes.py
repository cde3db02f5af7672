# SPDX-License-Identifier: Apache-2.0
"""Lays attributes out as an XLA FFI handler reads them: sorted by name, values behind pointers.

Invariant: the block that is returned owns all memory that its addresses point to.

Source: xla/ffi/call_frame.cc; xla/ffi/api/c_api.h (`XLA_FFI_Attrs`).
"""

from __future__ import annotations

import ctypes
from typing import Any, cast

import numpy as np

from ingot.hlo.dtype import dtype
from ingot.runtime.foreign.attributes import Attribute
from ingot.runtime.foreign.ffi.records import (
    ARRAY,
    ATTRS,
    BYTE_SPAN,
    DATA_TYPES,
    SCALAR,
    AttributeType,
    element_of_mlir,
)
from ingot.support.diagnostics import ParseError


class AttributeBlock:
    """The attributes of one call site in C memory; `words` is an `XLA_FFI_Attrs`."""

    def __init__(self, attributes: dict[str, Attribute]) -> None:
        """Lay the attributes out."""
        self._keep: list[Any] = []
        self.record = self._dictionary(attributes)
        self.address = ctypes.addressof(self.record)

    def _own(self, item: Any) -> int:
        self._keep.append(item)
        return ctypes.addressof(item)

    def _pointers(self, addresses: list[int]) -> int:
        return self._own((ctypes.c_void_p * max(1, len(addresses)))(*addresses))

    def _bytes(self, data: bytes) -> int:
        return self._own(ctypes.create_string_buffer(data, max(1, len(data))))

    def _span(self, text: str) -> int:
        data = text.encode()
        return self._own(BYTE_SPAN.structure(self._bytes(data), len(data)))

    def _dictionary(self, attributes: dict[str, Attribute]) -> Any:
        names = sorted(attributes)
        items = [self._attribute(attributes[name]) for name in names]
        types = (ctypes.c_int32 * max(1, len(items)))(*(kind for kind, _ in items))
        record = ATTRS.structure(
            ATTRS.size,
            0,
            len(items),
            self._own(types),
            self._pointers([self._span(name) for name in names]),
            self._pointers([address for _, address in items]),
        )
        self._own(record)
        return record

    def _attribute(self, attribute: Attribute) -> tuple[AttributeType, int]:
        value: Any = attribute.value
        match attribute.type:
            case "string":
                return AttributeType.STRING, self._span(value)
            case "dictionary":
                inner = self._dictionary(value)
                return AttributeType.DICTIONARY, ctypes.addressof(inner)
            case "unit":
                return AttributeType.DICTIONARY, ctypes.addressof(self._dictionary({}))
            case _:
                pass
        element = element_of_mlir(attribute.type)
        try:
            data = np.asarray(value, dtype(element).numpy).tobytes()
        except OverflowError:
            raise ParseError(
                f"attribute {value} of a custom call does not fit its type '{attribute.type}'",
                code="INGOT0113",
            ) from None
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            record = ARRAY.structure(
                dtype=DATA_TYPES[element], size=len(items), data=self._bytes(data)
            )
            return AttributeType.ARRAY, self._own(record)
        record = SCALAR.structure(dtype=DATA_TYPES[element], value=self._bytes(data))
        return AttributeType.SCALAR, self._own(record)

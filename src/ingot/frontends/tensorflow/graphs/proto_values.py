# SPDX-License-Identifier: Apache-2.0
"""The values in TensorFlow's protos as plain ones: attributes, shapes, element types.

Beneath `capture`, which walks the graphs. Invariant: no value refers to a proto.
Source: TensorFlow's `framework/attr_value.proto`, `tensor_shape.proto`, `types.proto`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.api.modules import dtypes, tensor_util
from ingot.frontends.tensorflow.graphs.captured import (
    Attribute,
    FunctionRef,
    PartialShape,
    Shape,
    TypeName,
)

_OPAQUE = frozenset({dtypes.variant.as_datatype_enum, dtypes.resource.as_datatype_enum})
"""Element types of tensors that have no NumPy array: they are told apart by their bytes."""


def read_shape(proto: Any) -> Shape:
    """Return the sizes that a TensorShapeProto says."""
    if proto.unknown_rank:
        return None
    sizes = [dim.size for dim in proto.dim]
    return tuple([None if size < 0 else size for size in sizes])


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _tensor(proto: Any) -> np.ndarray | bytes:
    if proto.dtype in _OPAQUE:
        return bytes(proto.SerializeToString())
    return np.asarray(tensor_util.MakeNdarray(proto))


@lru_cache(maxsize=4096)
def type_name(number: int) -> TypeName:
    """Return the element type that a number of TensorFlow's `DataType` stands for."""
    return TypeName(str(dtypes.as_dtype(number).base_dtype.name))


def _partial_shape(value: Any) -> PartialShape:
    return PartialShape(read_shape(value))


def _function(value: Any) -> FunctionRef:
    return FunctionRef(str(value.name))


_READERS: dict[str, Any] = {
    "s": _text,
    "i": int,
    "f": float,
    "b": bool,
    "type": type_name,
    "shape": _partial_shape,
    "tensor": _tensor,
    "func": _function,
}
"""How each kind of attribute value becomes a plain value; a list has fields of the same names."""


def read_attribute(proto: Any) -> Attribute:
    """Return the value of an AttrValue."""
    kind = proto.WhichOneof("value")
    if kind == "list":
        for name, reader in _READERS.items():
            items = getattr(proto.list, name)
            if len(items):
                return tuple(reader(item) for item in items)
        return ()
    if kind is None or kind == "placeholder":
        return ()
    return _READERS[kind](getattr(proto, kind))

# SPDX-License-Identifier: Apache-2.0
"""DLPack in: a NumPy array over the memory of another library's CPU tensor, without a copy.

Part of the slow path of a call. NumPy's own `from_dlpack` refuses the element types that it lacks
(bf16, f8), so the struct is read here. Invariant: the array keeps the capsule's tensor alive and
its deleter runs once, when the last view is gone.

Source: https://dmlc.github.io/dlpack/latest/c_api.html (DLManagedTensor, unversioned).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ingot.hlo.dtype import DTYPES

_CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost (pinned), kDLROCMHost


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


# DLDataTypeCode to the first letters of our names; the width follows from the bits.
_CODES = {0: "s", 1: "u", 2: "f", 4: "bf", 5: "c"}
_NAMED_CODES = {
    6: "pred",
    7: "f8e3m4",
    8: "f8e4m3",
    9: "f8e4m3b11fnuz",
    10: "f8e4m3fn",
    11: "f8e4m3fnuz",
    12: "f8e5m2",
    13: "f8e5m2fnuz",
    14: "f8e8m0fnu",
}

_USED_NAME = ctypes.c_char_p(b"used_dltensor")
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


class _Owner:
    """Calls the deleter when the last array over the tensor is gone."""

    __slots__ = ("_address",)

    def __init__(self, address: int) -> None:
        self._address = address

    def __del__(self) -> None:
        deleter = _ManagedTensor.from_address(self._address).deleter
        if deleter:
            # Exporters may touch Python objects, so the GIL is kept.
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(deleter)(self._address)


def import_tensor(value: Any) -> np.ndarray[Any, Any]:
    """Return an array over the memory of `value`, which has `__dlpack__`.

    Raises BufferError if the tensor is not in the CPU's memory or its type has no NumPy storage;
    what the exporter raises passes through.
    """
    device = int(value.__dlpack_device__()[0])
    if device not in _CPU_DEVICES:
        raise BufferError(f"the tensor is on DLPack device {device}, not in the CPU's memory")
    capsule = value.__dlpack__()
    address = _get_pointer(capsule, b"dltensor")
    _set_name(capsule, _USED_NAME)
    owner = _Owner(address)
    tensor = _ManagedTensor.from_address(address).tensor
    storage = _storage(tensor)
    shape = tuple(tensor.shape[: tensor.rank]) if tensor.rank else ()
    strides = _byte_strides(tensor, shape, storage.itemsize)
    extent = storage.itemsize + sum(
        (size - 1) * stride for size, stride in zip(shape, strides, strict=True)
    )
    length = 0 if 0 in shape else extent
    base = (tensor.data or 0) + tensor.byte_offset
    if length == 0:
        return np.empty(shape, storage)
    buffer: Any = (ctypes.c_uint8 * length).from_address(base)
    buffer.owner = owner
    return np.ndarray(shape, storage, buffer=buffer, strides=strides)


def _storage(tensor: _Tensor) -> np.dtype[Any]:
    code, bits, lanes = tensor.type_code, tensor.type_bits, tensor.type_lanes
    name = _NAMED_CODES.get(code, f"{_CODES.get(code, '?')}{bits}")
    found = DTYPES.get(name)
    if found is None or lanes != 1:
        raise BufferError(f"no element type for DLPack code {code}, {bits} bits, {lanes} lanes")
    return found.numpy


def _byte_strides(tensor: _Tensor, shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    if tensor.strides:
        return tuple(stride * item for stride in tensor.strides[: tensor.rank])
    strides: list[int] = []
    step = item
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)

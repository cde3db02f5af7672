# SPDX-License-Identifier: Apache-2.0
"""DLPack: another library's tensor without a copy, and our memory for another library.

Part of the slow path of a call. NumPy's own `from_dlpack` refuses the element types that it lacks
(bf16, f8), so the struct is read and written here. Invariant: an importer keeps the capsule's
tensor alive, and the tensor's deleter runs once, when the last view is gone.

Source: https://dmlc.github.io/dlpack/latest/c_api.html (DLManagedTensor, unversioned).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ingot.hlo.dtype import DTYPES
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.support.records import record

_CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost (pinned), kDLROCMHost
CUDA = 2
"""kDLCUDA."""


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


_NAME = ctypes.c_char_p(b"dltensor")
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_exported: dict[int, tuple[object, ...]] = {}
"""The records that consumers of our memory hold, and their owners, by the record's address."""


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _delete(record: int) -> None:
    """Drop a record that a consumer is done with."""
    _exported.pop(record, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _forget(capsule: int) -> None:
    """Drop the record of a capsule that nobody consumed."""
    if _is_valid(capsule, b"dltensor"):
        _exported.pop(int(_pointer_of(capsule, b"dltensor")), None)


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


@record
class TensorRow:
    """Another library's tensor.

    Attributes:
        address: the address of its first element.
        shape: its dimensions.
        strides: bytes from one element to the next, along each dimension.
        storage: NumPy's type of its elements.
        owner: what keeps it alive.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: np.dtype[Any]
    owner: object

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie row by row, with nothing in between."""
        if 0 in self.shape:
            return True
        step = self.storage.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True


def import_tensor(value: Any) -> np.ndarray[Any, Any]:
    """Return an array over the memory of `value`, which has `__dlpack__`.

    Raises:
        BufferError: the tensor is not in the CPU's memory, or its type has no NumPy storage.
        Exception: what the exporter raises.
    """
    device = int(value.__dlpack_device__()[0])
    if device not in _CPU_DEVICES:
        raise BufferError(f"the tensor is on DLPack device {device}, not in the CPU's memory")
    row = _taken(value.__dlpack__())
    item = row.storage.itemsize
    extent = item + sum(
        (size - 1) * stride for size, stride in zip(row.shape, row.strides, strict=True)
    )
    if 0 in row.shape:
        return np.empty(row.shape, row.storage)
    buffer: Any = (ctypes.c_uint8 * extent).from_address(row.address)
    buffer.owner = row.owner
    return np.ndarray(row.shape, row.storage, buffer=buffer, strides=row.strides)


def device_tensor(value: Any, stream: int) -> TensorRow:
    """Return the tensor of `value`, which is on a GPU; `stream` waits until it is computed.

    Raises:
        BufferError: its element type has no NumPy storage.
    """
    return _taken(value.__dlpack__(stream=stream))


def _taken(capsule: Any) -> TensorRow:
    """Return the tensor of a capsule, which is consumed."""
    address = _get_pointer(capsule, b"dltensor")
    _set_name(capsule, _USED_NAME)
    owner = _Owner(address)
    tensor = _ManagedTensor.from_address(address).tensor
    storage = _storage(tensor)
    shape = tuple(tensor.shape[: tensor.rank]) if tensor.rank else ()
    strides = _byte_strides(tensor, shape, storage.itemsize)
    return TensorRow((tensor.data or 0) + tensor.byte_offset, shape, strides, storage, owner)


def export_tensor(
    owner: object,
    address: int,
    shape: tuple[int, ...],
    storage: np.dtype[Any],
    device: tuple[int, int],
) -> Any:
    """Return a capsule of dense memory; `owner` lives until its consumer is done with it.

    Args:
        owner: the object that holds the memory.
        address: the address of the first element.
        shape: the dimensions.
        storage: NumPy's type of the elements.
        device: DLPack's type and number of the device.
    """
    made = _ManagedTensor()
    sizes = int64_array(shape)
    tensor = made.tensor
    tensor.data, tensor.rank = address, len(shape)
    tensor.device_type, tensor.device_id = device
    tensor.type_code, tensor.type_bits, tensor.type_lanes = (*_code_of(storage), 1)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    made.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    handle = ctypes.addressof(made)
    _exported[handle] = (made, sizes, owner)
    return _new_capsule(handle, _NAME, ctypes.cast(_forget, ctypes.c_void_p))


def _code_of(storage: np.dtype[Any]) -> tuple[int, int]:
    """Return DLPack's code and bits of an element type."""
    name = next(row.name for row in DTYPES.values() if row.storage == storage)
    for code, known in _NAMED_CODES.items():
        if known == name:
            return code, 8 * storage.itemsize
    letters = name.rstrip("0123456789")
    found = next((code for code, prefix in _CODES.items() if prefix == letters), None)
    if found is None:
        raise BufferError(f"DLPack has no element type {name}")
    return found, 8 * storage.itemsize


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

# SPDX-License-Identifier: Apache-2.0
"""Arrays in the memory of a GPU, dense and row-major.

Programs on a GPU take and return these. `numpy.asarray(array)` waits for it and copies it to the
host; other libraries read the same memory by DLPack or by `__cuda_array_interface__`.

Source: DLPack's Python specification; Numba's CUDA array interface, version 3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingot.runtime.arguments.dlpack import CUDA, TensorRow, device_tensor, export_tensor
from ingot.runtime.cuda.devices import Device
from ingot.support.diagnostics import ExecutionError

ALIGNMENT = 16
"""Bytes: kernels read several elements at a time, and those of 16 bytes at once."""

DEFAULT_STREAM = 1
"""What DLPack and the CUDA array interface call the legacy default stream."""


class DeviceArray:
    """An array of a GPU.

    Attributes:
        shape: its dimensions.
        dtype: NumPy's type of its elements.
        device: the GPU.
        address: the address of its first element.
    """

    __slots__ = ("__weakref__", "_owner", "address", "device", "dtype", "generation", "shape")

    def __init__(
        self,
        device: Device,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        owner: object,
    ) -> None:
        """Make an array over the memory at `address`, which `owner` holds."""
        self.device, self.address, self.shape, self.dtype = device, address, shape, dtype
        self.generation = device.generation
        self._owner = owner

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def block_until_ready(self) -> DeviceArray:
        """Wait until the array is computed; return it.

        Raises:
            CudaError: INGOT0526, something that was enqueued failed.
        """
        self.require_alive()
        self.device.synchronize()
        return self

    def taken(self) -> object:
        """Return the owner of the memory, for a result that takes it over; end this array."""
        self.require_alive()
        owner, self._owner = self._owner, None
        return owner

    def require_alive(self) -> None:
        """Refuse an array whose memory was donated or lost.

        Raises:
            ExecutionError: INGOT0527.
        """
        if self._owner is None:
            raise ExecutionError(
                "the array was donated: a result has its memory now",
                code="INGOT0527",
                hint="use the result, or do not donate the array",
            )
        if self.generation != self.device.generation:
            raise ExecutionError(
                f"the array was lost when {self.device} was reset",
                code="INGOT0527",
                hint="compute it again, or load it from where it was saved",
            )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Wait until the array is computed, and return a copy in the memory of the host."""
        if copy is False:
            raise ValueError("an array of a GPU cannot be seen by NumPy without a copy")
        self.require_alive()
        found = np.empty(self.shape, self.dtype)
        self.device.read(found.ctypes.data, self.address, self.nbytes)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type and number of the device."""
        return CUDA, self.device.number

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """Return a capsule over the same memory; `stream` waits until the array is computed."""
        self.require_alive()
        if stream is None:
            self.device.let_wait(DEFAULT_STREAM)
        elif stream != -1:
            self.device.let_wait(stream)
        return export_tensor(self, self.address, self.shape, self.dtype, self.__dlpack_device__())

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array's memory; a reader must wait for the stream."""
        self.require_alive()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": self.device.stream,
            "version": 3,
        }

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype.name}{list(self.shape)}, {self.device})"


def new_array(device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
    """Return an uninitialized array.

    Raises:
        ResourceError: INGOT0401, the device has no memory for it.
    """
    memory = device.allocate(math.prod(shape) * dtype.itemsize)
    return DeviceArray(device, memory.address, shape, dtype, memory)


def to_device(device: Device, value: np.ndarray[Any, Any]) -> DeviceArray:
    """Return a copy of an array of the host; the original may be changed once this returns."""
    dense = np.ascontiguousarray(value).reshape(value.shape)
    found = new_array(device, dense.shape, dense.dtype)
    device.write(found.address, dense.ctypes.data, dense.nbytes)
    return found


def from_other(device: Device, value: Any) -> DeviceArray | None:
    """Return an array over another library's memory on the same device; None if `value` has none.

    Arrays that are not dense and row-major are refused; those at unaligned addresses are copied.

    Raises:
        ExecutionError: INGOT0506, it is of another GPU, or not dense.
    """
    if not hasattr(value, "__dlpack__") or int(value.__dlpack_device__()[0]) != CUDA:
        return None
    number = int(value.__dlpack_device__()[1])
    if number != device.number:
        raise ExecutionError(
            f"an argument is on GPU {number}, and the program on GPU {device.number}",
            code="INGOT0506",
            hint="copy it to the program's GPU, or compile for the argument's",
        )
    row: TensorRow = device_tensor(value, device.stream)
    if not row.is_dense:
        raise ExecutionError(
            "an argument on a GPU is not dense and row-major",
            code="INGOT0506",
            hint="make it so first: tensor.contiguous()",
        )
    found = DeviceArray(device, row.address, row.shape, row.storage, row.owner)
    return found if row.address % ALIGNMENT == 0 else _copied(found)


def _copied(array: DeviceArray) -> DeviceArray:
    """Return a copy on the same device, aligned as new memory is."""
    found = new_array(array.device, array.shape, array.dtype)
    array.device.copy(found.address, array.address, array.nbytes)
    return found

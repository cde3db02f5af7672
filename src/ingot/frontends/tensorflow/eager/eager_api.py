# SPDX-License-Identifier: Apache-2.0
"""What the machine code of the eager fast path calls of TensorFlow, and what it is linked to.

Apart from that code (`eager_code`): a process that finds its object on the disk does not import it.
"""

from __future__ import annotations

import sys

from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.api.kernel_api import Status, Tensor
from ingot.native.functions import external, external_symbols
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i8, i32, i64

EAGER_CALL = "ingot_eager_call"
"""The symbol of the built-in."""

NOT_IMPLEMENTED = "ingot_not_implemented"
"""The symbol of Python's NotImplemented."""


class TensorHandle(Pointer):
    """TFE_TensorHandle."""

    __slots__ = ()


@external("TF_AllocateTensor")
def allocate_tensor(type: i32, dims: Array[i64], rank: i32, bytes: i64) -> Tensor:
    """Return a new tensor."""
    ...


@external("TFE_TensorHandleDevicePointer")
def device_pointer(handle: TensorHandle, status: Status) -> Pointer | None:
    """Return the memory behind a handle."""
    ...


@external("TFE_NewTensorHandle")
def new_handle(tensor: Tensor, status: Status) -> TensorHandle:
    """Return a handle of a tensor."""
    ...


@external(capi.EAGER_TENSOR_HANDLE)
def handle_of(eager_tensor: Pointer) -> TensorHandle:
    """Return the handle of an EagerTensor."""
    ...


@external(capi.EAGER_TENSOR_FROM_HANDLE)
def eager_tensor_of(handle: TensorHandle, is_packed: i8) -> Pointer:
    """Return an EagerTensor that takes over a handle."""
    ...


def symbols() -> list[str]:
    """Return the symbols of the functions of this module."""
    return external_symbols(sys.modules[__name__])

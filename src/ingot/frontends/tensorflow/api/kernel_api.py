# SPDX-License-Identifier: Apache-2.0
"""What native functions of TensorFlow's kernels call, as they declare it.

Invariant: handles are addresses of what nobody here reads. Source: TensorFlow's
`tensorflow/c/kernels.h`, `tf_tensor.h`, `tf_status.h`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import external
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64

PACKAGES = ("artifact", "runtime", "frontends/tensorflow")
"""Where the sources of native functions of TensorFlow are."""


class Status(Pointer):
    """TF_Status."""

    __slots__ = ()


class Tensor(Pointer):
    """TF_Tensor."""

    __slots__ = ()


class Context(Pointer):
    """TF_OpKernelContext."""

    __slots__ = ()


class Construction(Pointer):
    """TF_OpKernelConstruction."""

    __slots__ = ()


@external("TF_NewStatus")
def new_status() -> Status:
    """Return a status that is good."""
    ...


@external("TF_DeleteStatus")
def delete_status(status: Status) -> None:
    """Delete a status."""


@external("TF_GetCode")
def get_code(status: Status) -> i32:
    """Return the code of a status; 0 is good."""
    ...


@external("TF_SetStatus")
def set_status(status: Status, code: i32, text: Pointer) -> None:
    """Set code and message of a status."""


@external("TF_GetInput")
def get_input(context: Context, index: i32, tensor: Array[Tensor], status: Status) -> None:
    """Store a new TF_Tensor of an input into `tensor[0]`."""


@external("TF_TensorData")
def tensor_data(tensor: Tensor) -> Pointer | None:
    """Return the memory of a tensor."""
    ...


@external("TF_NumDims")
def num_dims(tensor: Tensor) -> i32:
    """Return the rank of a tensor."""
    ...


@external("TF_Dim")
def dim(tensor: Tensor, axis: i32) -> i64:
    """Return a size of a tensor."""
    ...


@external("TF_DeleteTensor")
def delete_tensor(tensor: Tensor) -> None:
    """Let go of a tensor."""


@external("TF_AllocateOutput")
def allocate_output(
    context: Context,
    index: i32,
    type: i32,
    dims: Array[i64] | None,
    rank: i32,
    bytes: i64,
    status: Status,
) -> Tensor:
    """Return a new tensor that is an output."""
    ...


@external("TF_NewTensor")
def new_tensor(
    type: i32,
    dims: Array[i64],
    rank: i32,
    data: Pointer | None,
    bytes: i64,
    release: Callable[[Pointer | None, i64, Pointer | None], None],
    argument: Pointer | None,
) -> Tensor:
    """Return a tensor over memory, which `release(data, bytes, argument)` gives back."""
    ...


@external("TF_SetOutput")
def set_output(context: Context, index: i32, tensor: Tensor, status: Status) -> None:
    """Make a tensor an output."""


@external("TF_OpKernelContext_Failure")
def fail(context: Context, status: Status) -> None:
    """Let the op fail."""


@external("TF_OpKernelConstruction_GetAttrInt64")
def get_attribute(
    construction: Construction, name: Pointer, value: Array[i64], status: Status
) -> None:
    """Store an attribute of the op into `value[0]`."""


@external("TF_OpKernelConstruction_Failure")
def fail_construction(construction: Construction, status: Status) -> None:
    """Let the construction of a kernel fail."""


@external("TF_ShapeInferenceContextSetUnknownShape")
def set_unknown_shape(context: Pointer, status: Status) -> None:
    """Say that the shape of the outputs is not known."""

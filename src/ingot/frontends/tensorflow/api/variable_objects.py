# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's variables and tensors as C structs, and the C++ functions that work on them.

TensorFlow's C API has no access to variables from a kernel. These are the layouts of the tested
series on x86-64; `variable_access` checks what can be checked before any of this is used.

Source: TensorFlow's `framework/resource_var.h`, `framework/tensor.h`, `tsl/platform/refcount.h`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.api.kernel_api import Context
from ingot.frontends.tensorflow.api.series import LOCK, LOOKUP, UNLOCK
from ingot.native.functions import external
from ingot.native.pointers import Array, Atomic, Pointer, Struct
from ingot.native.types import i8, i32, i64

DELETE_SLOT, NOTIFY_DELETED_SLOT = 1, 2
"""Slots of the virtual table of `RefCounted`."""


class Counted(Struct):
    """`tsl::core::RefCounted`."""

    table: Array[Callable[[Counted], None]]
    references: Atomic[i64]


class TensorBuffer(Counted):
    """`tensorflow::TensorBuffer`."""

    data: Pointer | None


class TensorObject(Struct, counts={"shape": 2}):
    """`tensorflow::Tensor`; its first field is a `TensorShape`."""

    shape: Array[i64]
    elements: i64
    buffer: TensorBuffer | None  # null for an empty tensor


class TensorInterface(Struct, counts={"tensor": 4}):
    """`tensorflow::TensorInterface`, which a TF_Tensor points to."""

    table: Pointer
    tensor: Array[i64]  # TensorObject


class Variable(Counted, counts={"tensor": 4}):
    """`tensorflow::Var`."""

    resource: Pointer
    is_initialized: i8
    copies_on_read: i8  # 1: the variable has sparse writers
    mutex: Atomic[i64]
    tensor: Array[i64]  # TensorObject


@external(LOCK)
def lock_mutex(mutex: Pointer) -> None:
    """Take an `absl::Mutex`."""


@external(UNLOCK)
def unlock_mutex(mutex: Pointer) -> None:
    """Give an `absl::Mutex` back."""


@external("_ZN10tensorflow15HandleFromInputEPNS_15OpKernelContextEi")
def handle_from_input(context: Context, input: i32) -> Pointer:
    """Return the handle that an input is."""
    ...


@external(LOOKUP)
def look_up(outcome: Array[i64], context: Context, handle: Pointer, variable: Pointer) -> None:
    """Store a reference to a variable, if it exists.

    `absl::Status` comes back through the hidden first pointer.
    """


@external("_ZN10tensorflow6TensorC1ENS_8DataTypeERKNS_11TensorShapeE")
def construct_tensor(tensor: TensorObject, type: i32, shape: TensorObject) -> None:
    """Make a tensor of the shape of another one."""


@external("_ZN10tensorflow6TensorD1Ev")
def destroy_tensor(tensor: TensorObject) -> None:
    """End a tensor."""


@external("_ZN10tensorflow6TensoraSEOS0_")
def move_tensor(target: TensorObject, source: TensorObject) -> Pointer:
    """Let a tensor take over what another one holds."""
    ...

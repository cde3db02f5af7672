# SPDX-License-Identifier: Apache-2.0
"""The functions of CPython's C API that native functions of front ends and clients call by name.

The runtime's own module reaches Python through the record of `python.objects`. Invariant:
`python_addresses` gives the address of each function that is declared here.
"""

from __future__ import annotations

import ctypes
import sys

from ingot.native.functions import external, external_symbols
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64

Cell = Array[Pointer | None]


@external("Py_IsInitialized")
def is_initialized() -> i32:
    """Return whether there is an interpreter."""
    ...


@external("PyGILState_Ensure")
def take_gil() -> i32:
    """Take the GIL; return the state that `give_gil` takes."""
    ...


@external("PyGILState_Release")
def give_gil(state: i32) -> None:
    """Give the GIL back."""


@external("PyEval_SaveThread")
def save_thread() -> Pointer | None:
    """Give the GIL back; Python keeps the state of this thread."""
    ...


@external("PyEval_RestoreThread")
def restore_thread(thread: Pointer | None) -> None:
    """Take the GIL that `save_thread` gave back."""


@external("PyErr_Fetch")
def fetch_error(kind: Cell, value: Cell, traceback: Cell) -> None:
    """Take the pending exception away."""


@external("PyErr_Restore")
def restore_error(kind: Pointer | None, value: Pointer | None, traceback: Pointer | None) -> None:
    """Put an exception back."""


@external("PyErr_WriteUnraisable")
def write_unraisable(function: Pointer) -> None:
    """Print the pending exception."""


@external("PyLong_FromVoidPtr")
def integer_of(pointer: Pointer | None) -> Pointer:
    """Return an address as an int of Python."""
    ...


@external("PyLong_AsVoidPtr")
def pointer_of(integer: Pointer) -> Pointer | None:
    """Return the address that an int of Python is."""
    ...


@external("PyLong_FromLong")
def int_of(number: i64) -> Pointer | None:
    """Return a number as an int of Python."""
    ...


@external("PyLong_AsUnsignedLongLong")
def number_of(integer: Pointer) -> i64:
    """Return the number that an int of Python is."""
    ...


@external("PyObject_CallOneArg")
def call_with(function: Pointer, argument: Pointer) -> Pointer | None:
    """Call a Python function; null if it raises."""
    ...


@external("PyCapsule_GetPointer")
def capsule_pointer(capsule: Pointer, name: Pointer | None) -> Pointer:
    """Return the address in a capsule."""
    ...


@external("PyTuple_New")
def new_tuple(count: i64) -> Pointer:
    """Return a tuple without items."""
    ...


@external("PyTuple_SetItem")
def set_item(tuple_: Pointer, index: i64, item: Pointer) -> i32:
    """Set an item of a new tuple, which takes over the reference."""
    ...


@external("Py_IncRef")
def incref(object_: Pointer) -> None:
    """Add a reference."""


@external("Py_DecRef")
def decref(object_: Pointer) -> None:
    """Drop a reference."""


def python_addresses() -> dict[str, int]:
    """Return the addresses of these functions."""
    names = external_symbols(sys.modules[__name__])
    found = {name: getattr(ctypes.pythonapi, name) for name in names}
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in found.items()
    }

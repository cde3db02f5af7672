# SPDX-License-Identifier: Apache-2.0
"""Objects of CPython and NumPy as C structs, and the record through which native code reaches them.

Invariant: the layout of these objects is declared here only; `python_api` tests it before any of it
is used. Addresses of functions and objects come through the `PYTHON` record at run time, never
through the code, which is the same in every process.

Source: CPython's Include/cpython/object.h, NumPy's ndarraytypes.h (PyArrayObject_fields), NEP 49.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import exported
from ingot.native.pointers import Array, Atomic, Pointer, Struct
from ingot.native.statics import static
from ingot.native.types import i8, i32, i64
from ingot.runtime.c_library import SignalHandler

USABLE_ARRAY = 0x101  # C_CONTIGUOUS | ALIGNED
"""Flags of arrays that machine code can work on."""
NEW_ARRAY = 0x501  # those and WRITEABLE
OWNS_DATA = 0x4


class PyObject(Struct):
    """Any object of a Python with a GIL, on a 64-bit machine."""

    count: i64
    type: Pointer


class RecordObject(PyObject):
    """An instance of `ctypes.Structure`."""

    data: Pointer


class ArrayType(PyObject):
    """A NumPy dtype object."""

    item_type: Pointer
    kind: i8
    letter: i8
    byte_order: i8
    flags: i8
    type_number: i32


class ArrayObject(PyObject):
    """An `np.ndarray`."""

    data: Pointer
    rank: i32
    dims: Array[i64]
    strides: Array[i64]
    base: Pointer | None
    descr: ArrayType
    flags: i32
    weak_references: Pointer | None
    buffer_info: Pointer | None
    handler: Pointer | None


class Python(Struct, name="IngotPython", counts={"interrupt": 3}):
    """Functions of CPython and NumPy, and objects."""

    array_type: Pointer  # numpy.ndarray
    new_from_descr: Callable[
        [Pointer, Pointer, i32, Array[i64], Pointer | None, Pointer, i32, Pointer | None],
        ArrayObject | None,
    ]  # PyArray_NewFromDescr
    memory_handler: Pointer  # capsule through which NumPy gives blocks back
    refuse: Pointer  # Python: (program, *args), for arguments the fast path refuses
    fail: Pointer  # Python: (program, status, *args), raises
    inc_ref: Callable[[Pointer], None]
    dec_ref: Callable[[Pointer | None], None]
    vectorcall: Callable[[Pointer, Array[Pointer] | None, i64, Pointer | None], Pointer | None]
    long_from_long: Callable[[i64], Pointer | None]
    tuple_new: Callable[[i64], Pointer | None]
    tuple_set_item: Callable[[Pointer, i64, Pointer], i32]
    save_thread: Callable[[], Pointer]
    restore_thread: Callable[[Pointer], None]
    ensure_gil: Callable[[], i32]
    release_gil: Callable[[i32], None]
    check_signals: Callable[[], i32]
    fetch_error: Callable[[Pointer, Pointer, Pointer], None]
    add_pending_call: Callable[[Callable[[Pointer | None], i32], Pointer | None], i32]
    ends_by_interrupt: Pointer  # Python: (), whether Ctrl-C raises KeyboardInterrupt
    true: Pointer  # Py_True
    main_thread: i64  # pthread_self of the thread that runs signal handlers
    main_calls: i64  # calls of `ingot_execute_python` on the main thread
    interrupt: Array[Pointer | None]  # what a handler raised: type, value, traceback


class Interrupts(Struct, name="IngotInterrupts", own_line=("count",)):
    """The state of handling Ctrl-C."""

    count: Atomic[i64]  # times that it was pressed
    answered: Atomic[i64]  # `count` when the main thread last ran Python after that
    asked: i64  # `count` when the main thread was last asked to answer
    last: Atomic[i64]  # the counter of `attention` after the last Ctrl-C
    waited: i64  # ticks since then
    settled: i64  # `count` for which it was decided whether executions end
    ended: Atomic[i64]  # executions end whose counter was less when they began
    previous: Atomic[SignalHandler]  # the handler of SIGINT that is called after ours


PYTHON = Python.c_layout

CPYTHON = static(Python, "IngotPython.state")
"""The record."""

INTERRUPTS = static(Interrupts, "IngotInterrupts.state")


@exported("ingot_python_record")
def python_record() -> Python:
    """Return the record."""
    return CPYTHON

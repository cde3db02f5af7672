# SPDX-License-Identifier: Apache-2.0
"""The border to CPython and NumPy: struct offsets tested, the `PYTHON` record, built-in functions.

The native Python call reads objects as the structs of `python.objects`. They hold for every
CPython with a GIL from 3.11 on and for NumPy from 1.26 on, but nobody promises them: so they are
compared with live objects first. Invariant: `layout_problems()` only reads memory that is known
to belong to the objects, and the native call is never used when it finds something.

Source: NumPy's numpy_api.py (slot numbers of the C API table), NEP 49 (PyDataMem_Handler).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.runtime.memory.array_memory import HANDLER_FUNCTIONS
from ingot.runtime.native import NativeRuntime
from ingot.runtime.python.builtins import definition_of
from ingot.runtime.python.interrupts import ends_by_interrupt
from ingot.runtime.python.objects import PYTHON, ArrayObject, ArrayType, PyObject, RecordObject
from ingot.runtime.threading.interrupts import WATCH

_NEW_FROM_DESCR_SLOT = 94
_HANDLER_NAME_BYTES = 127
_OBJECT, _RECORD = PyObject.c_layout, RecordObject.c_layout
_ARRAY, _TYPE = ArrayObject.c_layout, ArrayType.c_layout
_CAPSULE_NAME = ctypes.c_char_p(b"mem_handler")
_immortal: list[Any] = []
"""What native code points to for the rest of the process."""


def _c_function(name: str, result: Any, *params: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *params)((name, ctypes.pythonapi))


def _c_address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _word(base: int, offset: int) -> int:
    return ctypes.c_uint64.from_address(base + offset).value


def _numpy_core() -> Any:
    core = getattr(np, "_core", None)
    return core if core is not None else getattr(np, "core")  # noqa: B009 (gone from the stubs)


def layout_problems() -> tuple[str, ...]:
    """Return why the native call must not be used here; empty if all is as expected."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return ("this Python has no GIL, and other objects",)
    if ctypes.sizeof(ctypes.c_void_p) != 8 or np.ndarray.__basicsize__ != _ARRAY.size:
        return (f"NumPy arrays have {np.ndarray.__basicsize__} bytes, not {_ARRAY.size}",)
    array = np.zeros((3, 5), np.float32)
    at = id(array)
    pairs = {
        "object type": (_ARRAY.read(at, "type"), id(np.ndarray)),
        "array data": (_ARRAY.read(at, "data"), array.ctypes.data),
        "array rank": (_ARRAY.read(at, "rank"), array.ndim),
        "array dtype": (_ARRAY.read(at, "descr"), id(array.dtype)),
        "array flags": (_ARRAY.read(at, "flags"), int(array.flags.num)),
    }
    problems = [name for name, (found, expected) in pairs.items() if found != expected]
    return tuple(problems) or (*_dims_problems(array), *_dtype_problems(), *_record_problems())


def _dims_problems(array: np.ndarray[Any, Any]) -> tuple[str, ...]:
    # The addresses are NumPy's own: only read once `layout_problems` knows the struct.
    dims = _ARRAY.read(id(array), "dims")
    if _ARRAY.read(id(array), "strides") != dims + 8 * array.ndim:
        return ("array dims",)
    found = tuple(_word(dims, 8 * axis) for axis in range(array.ndim))
    capsule = _ARRAY.read(id(array), "handler")
    if found != array.shape:
        return ("array dims",)
    is_capsule = capsule and _OBJECT.read(capsule, "type") == id(_type_of(_api_capsule()))
    return () if is_capsule else ("array memory handler",)


def _type_of(value: object) -> object:
    return type(value)


def _dtype_problems() -> tuple[str, ...]:
    problems: list[str] = []
    for text in ("<f4", ">f8", "|b1"):
        storage = np.dtype(text)
        order = chr(_TYPE.read(id(storage), "byte_order"))
        number = _TYPE.read(id(storage), "type_number")
        if (order, number) != (storage.byteorder, storage.num):
            problems.append(f"dtype {text}")
    return tuple(problems)


def _record_problems() -> tuple[str, ...]:
    record = PYTHON.structure()
    same = _RECORD.read(id(record), "data") == ctypes.addressof(record)
    return () if same else ("ctypes record",)


def _api_capsule() -> Any:
    return _numpy_core()._multiarray_umath._ARRAY_API


def _array_api(slot: int) -> int:
    get = _c_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(get(_api_capsule(), None), ctypes.POINTER(ctypes.c_void_p))
    return table[slot] or 0


def _memory_handler(runtime: NativeRuntime) -> Any:
    """Return the capsule that tells NumPy how to free our blocks; it lives forever."""
    name = b"ingot".ljust(_HANDLER_NAME_BYTES, b"\0")
    functions = [runtime.address(item) for item in HANDLER_FUNCTIONS]
    handler = ctypes.create_string_buffer(struct.pack("=127sBQ4Q", name, 1, 0, *functions))
    types = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    make = _c_function("PyCapsule_New", ctypes.py_object, *types)
    capsule = make(ctypes.addressof(handler), _CAPSULE_NAME, None)
    _immortal.extend((handler, capsule))
    return capsule


def fill_python_record(
    runtime: NativeRuntime, refuse: Callable[..., Any], fail: Callable[..., Any]
) -> None:
    """Tell the native call where everything is; `refuse` and `fail` are its Python half."""
    _immortal.extend((refuse, fail))
    record = int(runtime.function("ingot_python_record", ctypes.c_void_p)())
    values = {
        "array_type": id(np.ndarray),
        "new_from_descr": _array_api(_NEW_FROM_DESCR_SLOT),
        "memory_handler": id(_memory_handler(runtime)),
        "refuse": id(refuse),
        "fail": id(fail),
        "inc_ref": _c_address("Py_IncRef"),
        "dec_ref": _c_address("Py_DecRef"),
        "vectorcall": _c_address("PyObject_Vectorcall"),
        "long_from_long": _c_address("PyLong_FromLong"),
        "tuple_new": _c_address("PyTuple_New"),
        "tuple_set_item": _c_address("PyTuple_SetItem"),
        "save_thread": _c_address("PyEval_SaveThread"),
        "restore_thread": _c_address("PyEval_RestoreThread"),
        "ensure_gil": _c_address("PyGILState_Ensure"),
        "release_gil": _c_address("PyGILState_Release"),
        "check_signals": _c_address("PyErr_CheckSignals"),
        "fetch_error": _c_address("PyErr_Fetch"),
        "add_pending_call": _c_address("Py_AddPendingCall"),
        "ends_by_interrupt": id(ends_by_interrupt),
        "true": id(True),
        "main_thread": threading.main_thread().ident or 0,
    }
    for name, value in values.items():
        PYTHON.write(record, name, value)
    watch = int(runtime.function("ingot_watch", ctypes.c_void_p)())
    WATCH.write(watch, "check", runtime.address("ingot_python_check"))
    WATCH.write(watch, "on_tick", runtime.address("ingot_python_tick"))
    # After a fork, the thread that forked is the main one.
    os.register_at_fork(
        after_in_child=lambda: PYTHON.write(record, "main_thread", threading.get_ident())
    )


def make_method(runtime: NativeRuntime) -> Callable[[Any], Callable[..., Any]]:
    """Return a function that makes the built-in function of a program from its record."""
    doc = b"Run the compiled program on these arrays; see ingot.runtime.programs.program.Program."
    pointer = definition_of(b"call", runtime.address("ingot_python_call"), doc)
    types: Any = (type(pointer), ctypes.py_object, ctypes.c_void_p)
    new = _c_function("PyCFunction_NewEx", ctypes.py_object, *types)
    return lambda record: new(pointer, record, None)

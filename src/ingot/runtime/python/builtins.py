# SPDX-License-Identifier: Apache-2.0
"""Built-in functions of Python made of native functions: `fastcall(name, address)`.

A front end emits `ptr f(ptr self, ptr args, i64 nargs)`, and calls it from Python at the cost of a
built-in. Invariant: definitions live as long as the process, and a built-in keeps the object `kept`
alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_definitions: dict[tuple[bytes, int], Any] = {}
"""What CPython keeps pointers to."""


def definition_of(name: bytes, address: int, doc: bytes | None = None) -> Any:
    """Return a pointer to the definition of the METH_FASTCALL function at `address`."""
    key = (name, address)
    if key not in _definitions:
        _definitions[key] = _MethodDef(name, address, _METH_FASTCALL, doc)
    return ctypes.pointer(_definitions[key])


@cache
def _functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `PyCFunction_NewEx` and `PyCapsule_New`."""
    api = ctypes.pythonapi
    method_types = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object)
    capsule_types = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    new_method = ctypes.PYFUNCTYPE(ctypes.py_object, *method_types)(("PyCFunction_NewEx", api))
    new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, *capsule_types)(("PyCapsule_New", api))
    return new_method, new_capsule


def fastcall(name: bytes, address: int, record: int, kept: Any) -> Callable[..., Any]:
    """Return a built-in whose `self` is a capsule around a record.

    Args:
        name: the name of the built-in.
        address: the address of `ptr f(ptr self, ptr args, i64 nargs)`.
        record: the address that the capsule holds.
        kept: an object that the built-in keeps alive, in the field of its module, which nobody
            reads.
    """
    new_method, new_capsule = _functions()
    return new_method(definition_of(name, address), new_capsule(record, None, None), kept)

# SPDX-License-Identifier: Apache-2.0
"""Functions of C whose body is Python, which may be called while an exception is raised.

jaxlib destroys arrays from the `dealloc` of a frame that an error leaves; the driver's functions
that this calls are machine code, and those of the fake driver must bear it too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from ingot.client.pjrt.trampolines import call_python
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported
from ingot.native.module import Translation
from ingot.native.operations import address_of
from ingot.native.pointers import Array, Pointer
from ingot.native.statics import static_array
from ingot.native.types import i32, i64
from ingot.runtime.native import library_imports
from ingot.runtime.python.c_python import python_addresses


def shielded(functions: Mapping[str, Callable[[int, int], int]]) -> dict[str, int]:
    """Return addresses of functions of two words, by name, that call these of Python."""
    module = ModuleBuilder("shielded")
    translation = Translation(module)
    targets: Array[Pointer] = static_array(
        Pointer, "targets", [0] * len(functions), is_constant=False
    )

    @exported("targets_address")
    def targets_address() -> Array[Pointer]:
        return targets

    translation.add(targets_address)
    for index, name in enumerate(functions):
        translation.add(_shielded(name, targets, index))
    code = compile_object(module.text(), TargetSpec.host())
    library = link_object([code], {**python_addresses(), **library_imports()})
    table = (ctypes.c_void_p * len(functions)).from_address(
        int(library.function("targets_address", ctypes.c_void_p)())
    )
    _kept.append(library)
    for index, function in enumerate(functions.values()):
        target = _on_words(function)
        _kept.append(target)
        table[index] = id(target)
    return {name: library.address(name) for name in functions}


_kept: list[Any] = []


def _on_words(function: Callable[[int, int], int]) -> Callable[[int], int]:
    def run(address: int) -> int:
        return function(*(ctypes.c_int64 * 2).from_address(address))

    return run


def _shielded(name: str, targets: Array[Pointer], index: int) -> Callable[..., Any]:
    @exported(name)
    def run(first: i64, second: i64) -> i32:
        words = Array[i64].on_stack(2)
        words[0] = first
        words[1] = second
        return i32(address_of(call_python(targets[index], words)))

    return run

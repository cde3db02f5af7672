# SPDX-License-Identifier: Apache-2.0
"""The runtime as one LLVM module: pool, allocator, execution and, if wanted, the Python call.

`native` links it into this process. Invariant: the text depends on nothing but the arguments of
`runtime_module`, so the object is compiled once per machine and comes from the cache after.
"""

from __future__ import annotations

from types import ModuleType

from ingot.llvm.builder import ModuleBuilder
from ingot.native.functions import exported_of, external_symbols
from ingot.native.module import Translation
from ingot.runtime import c_library, state
from ingot.runtime.executor import execute, profiler, staged_code, steps
from ingot.runtime.memory import allocator, array_memory
from ingot.runtime.python import call as python_call
from ingot.runtime.python import interrupts as python_interrupts
from ingot.runtime.python import objects as python_objects
from ingot.runtime.threading import fibers, interrupts, pool, threads

_FILES = (pool, allocator, interrupts, execute, steps, staged_code, profiler, state)
_PYTHON_FILES = (python_objects, python_call, python_interrupts, array_memory)


def _symbols(files: tuple[ModuleType, ...]) -> dict[str, None]:
    return dict.fromkeys([symbol for file in files for symbol in exported_of(file)])


NATIVE_FUNCTIONS = tuple(_symbols(_FILES))
"""What other native code may call; `records.c_header` has the signatures."""

PYTHON_FUNCTIONS = tuple(_symbols(_PYTHON_FILES).keys() - NATIVE_FUNCTIONS)

LIBRARY_FUNCTIONS = (
    *("sched_yield", "syscall", "memcpy", "memset"),
    *external_symbols(c_library),
    *external_symbols(threads),
    *external_symbols(fibers),
)
"""The C library functions that the module imports."""


def runtime_module(with_python: bool) -> ModuleBuilder:
    """Return the module; `with_python` adds the functions of `PYTHON_FUNCTIONS`."""
    module = ModuleBuilder("ingot_runtime")
    translation = Translation(module)
    for file in (*_FILES, *(_PYTHON_FILES if with_python else ())):
        translation.add(*exported_of(file).values())
    return module

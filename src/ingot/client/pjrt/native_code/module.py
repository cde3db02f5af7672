# SPDX-License-Identifier: Apache-2.0
"""The machine code of the PJRT C API: one module, compiled once per machine, linked once.

It joins the native functions of the other files, the getters and the trampolines. Invariant: the
module depends only on the sources and on the names of the Python slots, so after the first time the
object comes from the disk cache, and nothing is translated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

from ingot.client.pjrt.native_code import buffers as native_buffers
from ingot.client.pjrt.native_code import events as native_events
from ingot.client.pjrt.native_code import execute as native_execute
from ingot.client.pjrt.native_code import getters
from ingot.client.pjrt.native_code import gpu as native_gpu
from ingot.client.pjrt.native_code import launch as native_launch
from ingot.client.pjrt.native_code import layouts as native_layouts
from ingot.client.pjrt.native_code import queue as native_queue
from ingot.client.pjrt.native_code import transfer as native_transfer
from ingot.client.pjrt.native_code import turns as native_turns
from ingot.client.pjrt.native_code import worker as native_worker
from ingot.client.pjrt.native_code.emit import IMPORTS
from ingot.client.pjrt.trampolines import add_trampolines
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_named
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported_of
from ingot.native.module import Translation
from ingot.runtime.native import library_imports, native_runtime
from ingot.runtime.python.c_python import python_addresses

HELPERS = (
    *("execution_failed", "release_executable", "execute_on_devices"),
    *("from_host", "to_host"),
)
"""Python functions that native functions call."""
_DESTRUCTORS = ("release_executable",)
"""Slots that hosts may call on any thread, even at exit: jaxlib's pool drops its reference to a
program after it has passed the program to the thread that wanted it."""

_SOURCES = ("support", "llvm", "native", "runtime", "artifact", "hlo", "client")
"""The packages that make the module."""

_FILES: tuple[ModuleType, ...] = (
    *(
        getters,
        native_layouts,
        native_events,
        native_gpu,
        native_buffers,
        native_worker,
        native_queue,
    ),
    *(native_launch, native_turns, native_execute, native_transfer),
)


def pjrt_module(python_slots: Sequence[str]) -> ModuleBuilder:
    """Return the module; `python_slots` are the slots whose body is Python."""
    module = ModuleBuilder("ingot_pjrt")
    translation = Translation(module)
    add_trampolines(translation, [*HELPERS, *python_slots], _DESTRUCTORS)
    getters.emit_getters(module)
    translation.add(*exported_functions().values())
    return module


@cache
def exported_functions() -> dict[str, Callable[..., Any]]:
    """Return the exported native functions, by their symbols."""
    return {name: each for file in _FILES for name, each in exported_of(file).items()}


def compiled_slots() -> list[str]:
    """Return the names of the slots that are machine code."""
    native = [name for name in exported_functions() if name.startswith("PJRT_")]
    return [*getters.GETTERS, *native]


def _text(python_slots: Sequence[str]) -> str:
    return pjrt_module(python_slots).text()


def link(python_slots: Sequence[str]) -> Library:
    """Compile (or load) and link the module."""
    runtime = native_runtime()
    name = f"pjrt {hashlib.sha256(' '.join(python_slots).encode()).hexdigest()}"
    data = compile_named(name, _SOURCES, partial(_text, python_slots), TargetSpec.host()).result()
    addresses = {name: runtime.address(name) for name in IMPORTS}
    return link_object([data], {**addresses, **python_addresses(), **library_imports()})

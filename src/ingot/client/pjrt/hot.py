# SPDX-License-Identifier: Apache-2.0
"""The machine code of the PJRT C API: one module, compiled once per machine, linked once.

Joins the `hot_*` files, the getters and the trampolines. Invariant: the text depends only on the
names of the Python slots, so the object comes from the cache of the disk after the first time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.client.pjrt.emit import IMPORTS
from ingot.client.pjrt.getters import emit_getters
from ingot.client.pjrt.hot_buffers import emit_buffers
from ingot.client.pjrt.hot_events import emit_events
from ingot.client.pjrt.hot_execute import emit_execute
from ingot.client.pjrt.hot_layouts import emit_layouts
from ingot.client.pjrt.hot_transfer import emit_transfer
from ingot.client.pjrt.hot_worker import emit_worker
from ingot.client.pjrt.trampolines import emit_trampolines, python_addresses
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import PTR, VOID
from ingot.runtime.native import library_imports, native_runtime

HELPERS = (
    *("execution_failed", "release_executable", "execute_many"),
    *("from_host", "to_host"),
)
"""Python functions that machine code falls back to."""
_DESTRUCTORS = ("release_executable",)
"""Those that hosts may reach on any thread, with nobody waiting for it: jaxlib's pool drops its
reference to a program after it has handed the program to the thread that wanted it."""


def pjrt_module(python_slots: Sequence[str]) -> ModuleBuilder:
    """Return the module; `python_slots` are the slots whose body is Python."""
    module = ModuleBuilder("ingot_pjrt")
    python = emit_trampolines(module, [*HELPERS, *python_slots], _DESTRUCTORS)
    emit_getters(module)
    emit_layouts(module)
    events = emit_events(module)
    buffers = emit_buffers(module, events)
    worker = emit_worker(module, events, buffers, python)
    emit_execute(module, events, buffers, worker, python)
    emit_transfer(module, events, buffers, worker, python)
    nothing = module.function("ingot_pjrt_nothing", VOID, [("data", PTR), ("context", PTR)])
    nothing.ret()
    return module


def compiled_slots() -> list[str]:
    """Return the names of the slots that are machine code."""
    defined = re.findall(r"^define.*@(PJRT_\w+)\(", pjrt_module([]).text(), re.MULTILINE)
    return list(defined)


def link(python_slots: Sequence[str]) -> Library:
    """Compile (or load) and link the module."""
    runtime = native_runtime()
    data = compile_object(pjrt_module(python_slots).text(), TargetSpec.host())
    addresses = {name: runtime.address(name) for name in IMPORTS}
    return link_object([data], {**addresses, **python_addresses(), **library_imports()})

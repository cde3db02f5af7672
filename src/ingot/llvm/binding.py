# SPDX-License-Identifier: Apache-2.0
"""The interface to llvmlite, which has no type stubs: `llvm` is `llvmlite.binding` as `Any`.

llvmlite holds one lock for the whole process during every call. Emitting code is 90 % of a
compilation, and safe to run in parallel (every compilation has its own context and target machine),
so `emit` and `run_passes` call LLVM's functions without that lock: two threads then compile twice
as fast. ctypes releases the GIL during these calls.

LLVM is a library of 100 MB, which is loaded when it is first used: not by a process that finds all
its code on the disk.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

from ingot.support.diagnostics import ResourceError
from ingot.support.forking import hold_over_fork


@cache
def _ffi() -> Any:
    """Return `llvmlite.binding.ffi`.

    Raises:
        ResourceError: INGOT0404, LLVM cannot be loaded.
    """
    try:
        found: Any = import_module("llvmlite.binding.ffi")
        lock = found.lib._lock._lock
    except (OSError, ImportError, MemoryError) as error:
        raise ResourceError(
            f"LLVM cannot be loaded: {error}",
            code="INGOT0404",
            hint="raise the limit of the address space (ulimit -v), or install llvmlite again",
        ) from error
    hold_over_fork(lock)
    return found


class _Binding:
    """`llvmlite.binding`, loaded when a name of it is first used."""

    def __getattr__(self, name: str) -> Any:
        _ffi()
        found = getattr(import_module("llvmlite.binding"), name)
        setattr(self, name, found)
        return found


llvm: Any = _Binding()


@cache
def llvmlite_version() -> str:
    """Return the version of llvmlite, which has one version of LLVM; nothing more is loaded."""
    return str(import_module("llvmlite").__version__)


def _unlocked(name: str) -> Any:
    """Return the C function `name` with its declared types, without llvmlite's lock around it."""
    function = getattr(_ffi().lib, name)
    return getattr(function, "_cfn", function)


def emit(machine: Any, module: Any, as_object: bool) -> bytes:
    """Return the object file (or the assembly text) of `module` for `machine`.

    Raises:
        RuntimeError: LLVM could not emit it; the text is LLVM's.
    """
    ffi = _ffi()
    with ffi.OutputString() as error:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(
            machine, module, int(as_object), error
        )
        if not buffer:
            raise RuntimeError(str(error))
    start = ffi.lib.LLVMPY_GetBufferStart(buffer)
    try:
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run a module pass manager."""
    _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)

# SPDX-License-Identifier: Apache-2.0
"""The interface to llvmlite, which has no type stubs: `llvm` is `llvmlite.binding` as `Any`.

llvmlite holds one lock for the whole process during every call. Emitting code is 90 % of a
compilation, and safe to run in parallel (every compilation has its own context and target machine),
so `emit` and `run_passes` call LLVM's functions without that lock: two threads then compile twice
as fast. ctypes releases the GIL during these calls.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from ingot.support.forking import hold_over_fork

llvm: Any = import_module("llvmlite.binding")
_ffi: Any = import_module("llvmlite.binding.ffi")
hold_over_fork(_ffi.lib._lock._lock)


def _unlocked(name: str) -> Any:
    """Return the C function `name` with its declared types, without llvmlite's lock around it."""
    function = getattr(_ffi.lib, name)
    return getattr(function, "_cfn", function)


def emit(machine: Any, module: Any, as_object: bool) -> bytes:
    """Return the object file (or the assembly text) of `module` for `machine`."""
    with _ffi.OutputString() as error:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(
            machine, module, int(as_object), error
        )
        if not buffer:
            raise RuntimeError(str(error))
    start = _ffi.lib.LLVMPY_GetBufferStart(buffer)
    try:
        return ctypes.string_at(start, _ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        _ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run a module pass manager."""
    _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)

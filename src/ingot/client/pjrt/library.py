# SPDX-License-Identifier: Apache-2.0
"""`libingot_pjrt.so`: the function table for hosts that load C libraries (Reactant, EXLA, C++).

The library exports `GetPjrtApi` and little else. Its first call finds the Python of the process, or
loads and initializes the one that made the library, and runs a line of Python that links the
plugin. It is made without a C compiler or linker.

Invariant: in a host that runs Python itself nothing is initialized a second time; in another one
the GIL is released before `GetPjrtApi` returns, and the environment is as it was.

Source: dlopen(3); Python's initialization API (Py_InitializeEx, PyGILState_Ensure).
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import ingot
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.shared_library import link_shared
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported, external, inlined, native
from ingot.native.module import Translation
from ingot.native.operations import address_of
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.statics import static_text, static_word
from ingot.native.types import i8, i32, i64
from ingot.runtime.c_library import c_free
from ingot.support.diagnostics import UnsupportedError

_RTLD_NOW_GLOBAL = 0x102
_DIGITS = 16
_HINT = "cannot load the Python that it was made with; make it again with `ingot pjrt`"
_PLACEHOLDER = "0x" + "0" * _DIGITS
"""The number that the machine code overwrites with the address at which the table's address is
stored."""

_CODE = f"""
import os, sys
os.environ.pop("PYTHONHOME", None)
sys.path[:0] = [path for path in paths if path not in sys.path]
import site
for path in sites:
    site.addsitedir(path)
import ctypes
from ingot.client.pjrt.plugin import api_address
ctypes.c_uint64.from_address({_PLACEHOLDER}).value = api_address()
"""


class PythonFunctions(Struct):
    """Functions of Python, found by name."""

    is_initialized: Callable[[], i32]
    initialize: Callable[[i32], None]
    take_gil: Callable[[], i32]
    give_gil: Callable[[i32], None]
    run: Callable[[Pointer], i32]
    save_thread: Callable[[], Pointer | None]


_NAMES = (
    *("Py_IsInitialized", "Py_InitializeEx", "PyGILState_Ensure", "PyGILState_Release"),
    *("PyRun_SimpleString", "PyEval_SaveThread"),
)
"""Their names, in order."""


def write_library(path: Path, python: Path | None = None) -> int:
    """Write the library; return its size in bytes.

    Args:
        path: the file.
        python: the shared library of Python that it loads; default: this Python's.

    Raises:
        UnsupportedError: this Python has no shared library that another process could load.
    """
    text = library_module(python or _python_library()).text()
    data = compile_object(text, TargetSpec.host())
    image = link_shared(data, path.name, ["libc.so.6"], ["GetPjrtApi"])
    path.write_bytes(image)
    path.chmod(0o755)
    return len(image)


def _python_library() -> Path:
    """Return the shared library of this Python."""
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    found = Path(folder or "") / (name or "")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED") or not found.is_file():
        raise UnsupportedError(
            "this Python is not a shared library, so other programs cannot load it",
            hint="use a Python that was configured with --enable-shared",
        )
    return found


def _script() -> str:
    """Return the line of Python that links the plugin."""
    source = str(Path(ingot.__file__).parents[1])
    sites = [path for path in sys.path if path.endswith("site-packages")]
    scope = f"{{'paths': {[source]!r}, 'sites': {sites!r}}}"
    return f"exec({_CODE!r}, {scope})\n"


@external("dlsym")
def find_symbol(handle: Pointer | None, name: Pointer) -> Pointer | None:
    """Return the address of a function; the handle null is the process itself."""
    ...


@external("dlopen")
def open_library(path: Pointer, flags: i32) -> Pointer | None:
    """Load a library."""
    ...


@external("dlerror")
def open_error() -> Pointer:
    """Return why a library was not loaded."""
    ...


@external("strlen")
def text_length(text: Pointer) -> i64:
    """Return the bytes of a C string."""
    ...


@external("write")
def write(file: i32, data: Pointer, size: i64) -> i64:
    """Write to a file."""
    ...


@external("getenv")
def get_variable(name: Pointer) -> Pointer | None:
    """Return a variable of the environment."""
    ...


@external("setenv")
def set_variable(name: Pointer, value: Pointer, replaces: i32) -> i32:
    """Set a variable of the environment."""
    ...


@external("unsetenv")
def remove_variable(name: Pointer) -> i32:
    """Remove a variable of the environment."""
    ...


@external("strdup")
def copy_text(text: Pointer) -> Pointer | None:
    """Return a copy of a C string."""
    ...


TABLE = static_word(Pointer, "table")
_PROBE = static_text("probe", _NAMES[0])
_TOLD = static_text("told", f"libingot_pjrt: {_HINT}: ")
_LINE_END = static_text("line_end", "\n")
_HOME_NAME = static_text("home.name", "PYTHONHOME")
_HOME = static_text("home", sys.base_prefix)
_NAME_TEXTS = [static_text(f"name.{name}", name) for name in _NAMES]


@native
def say(text: Pointer) -> None:
    """Write a text to standard error."""
    write(2, text, text_length(text))


@inlined
def look_up(functions: PythonFunctions, handle: Pointer | None) -> None:
    """Find the functions of Python."""
    found = Array[Pointer | None].at(functions)
    found[0] = find_symbol(handle, _NAME_TEXTS[0])
    found[1] = find_symbol(handle, _NAME_TEXTS[1])
    found[2] = find_symbol(handle, _NAME_TEXTS[2])
    found[3] = find_symbol(handle, _NAME_TEXTS[3])
    found[4] = find_symbol(handle, _NAME_TEXTS[4])
    found[5] = find_symbol(handle, _NAME_TEXTS[5])


@inlined
def set_home() -> Pointer | None:
    """Set PYTHONHOME to this Python's folder; return a copy of the host's value.

    Without it Python looks for a `python3` in the host's PATH, and uses its modules.
    """
    before = get_variable(_HOME_NAME)
    kept: Pointer | None = None
    if before is not None:
        kept = copy_text(before)
    set_variable(_HOME_NAME, _HOME, 1)
    return kept


@inlined
def restore_home(before: Pointer | None) -> None:
    """Restore the host's PYTHONHOME, or unset it."""
    if before is None:
        remove_variable(_HOME_NAME)
    else:
        set_variable(_HOME_NAME, before, 1)
        c_free(before)


@inlined
def write_digits(target: Array[i8], number: i64) -> None:
    """Write a number as hexadecimal digits."""
    for index in range(_DIGITS):
        digit = number >> (_DIGITS - 1 - index) * 4 & 15
        base = i64(ord("a") - 10) if digit > 9 else ord("0")
        target[index] = i8(base + digit)


def library_module(python: Path) -> ModuleBuilder:
    """Return the module with `GetPjrtApi`, which loads `python` if the process has none."""
    text = _script()
    path = static_text("python", str(python))
    script = static_text("script", text, is_constant=False)
    digits = script + (text.encode().index(_PLACEHOLDER.encode()) + 2)

    @exported("GetPjrtApi")
    def get_api() -> Pointer | None:
        known = TABLE.load()
        if known is not None:
            return known
        handle: Pointer | None = None
        if find_symbol(None, _PROBE) is None:
            handle = open_library(path, _RTLD_NOW_GLOBAL)
            if handle is None:
                say(_TOLD)
                say(open_error())
                say(_LINE_END)
                return None
        functions = PythonFunctions.on_stack()
        look_up(functions, handle)
        is_fresh = functions.is_initialized() == 0
        home: Pointer | None = None
        if is_fresh:
            home = set_home()
            functions.initialize(0)
        state = functions.take_gil()
        write_digits(Array[i8].at(digits), address_of(TABLE))
        functions.run(script)
        functions.give_gil(state)
        if is_fresh:
            restore_home(home)
            functions.save_thread()
        return TABLE.load()

    module = ModuleBuilder("ingot_pjrt_library")
    Translation(module).add(get_api)
    return module

# SPDX-License-Identifier: Apache-2.0
"""`libingot_pjrt.so`: the function table for hosts that load C libraries (Reactant, EXLA, C++).

The library exports `GetPjrtApi` and little else: the first call finds the Python of the process, or
loads and initializes the one that made the library, from where it lies, and runs a line of Python
that links the plugin. Made without a C compiler or linker.

Invariant: in a host that runs Python itself nothing is initialized a second time; in another one
the GIL is given back before `GetPjrtApi` returns, and the environment is as it was.

Source: dlopen(3); Python's initialization API (Py_InitializeEx, PyGILState_Ensure).
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import ingot
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.shared_library import link_shared
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import Value, zero
from ingot.runtime.sync import discard
from ingot.support.diagnostics import UnsupportedError

_RTLD_NOW_GLOBAL = 0x102
_DIGITS = 16
_HINT = "cannot load the Python that it was made with; make it again with `ingot pjrt`"
_PLACE = "0x" + "0" * _DIGITS
"""What the machine code overwrites with the address where the table's address is wanted."""

_CODE = f"""
import os, sys
os.environ.pop("PYTHONHOME", None)
sys.path[:0] = [path for path in paths if path not in sys.path]
import site
for path in sites:
    site.addsitedir(path)
import ctypes
from ingot.client.pjrt.plugin import api_address
ctypes.c_uint64.from_address({_PLACE}).value = api_address()
"""

_FUNCTIONS: dict[str, tuple[Type, list[Type]]] = {
    "Py_IsInitialized": (I32, []),
    "Py_InitializeEx": (VOID, [I32]),
    "PyGILState_Ensure": (I32, []),
    "PyGILState_Release": (VOID, [I32]),
    "PyRun_SimpleString": (I32, [PTR]),
    "PyEval_SaveThread": (PTR, []),
}


def write_library(path: Path, python: Path | None = None) -> int:
    """Write the library, which loads `python` (default: this one's); return its bytes.

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


def _script() -> bytes:
    """Return the line of Python that links the plugin."""
    source = str(Path(ingot.__file__).parents[1])
    sites = [path for path in sys.path if path.endswith("site-packages")]
    scope = f"{{'paths': {[source]!r}, 'sites': {sites!r}}}"
    return f"exec({_CODE!r}, {scope})\n".encode() + b"\0"


def library_module(python: Path) -> ModuleBuilder:
    """Return the module with `GetPjrtApi`."""
    module = ModuleBuilder("ingot_pjrt_library")
    table = module.global_text("table", "internal global ptr null, align 8")
    f = module.function("GetPjrtApi", PTR, [])
    known = f.atomic_load(PTR, table)
    f.if_(f.icmp("ne", known, zero(PTR)), lambda: f.ret(known))
    handle = _emit_find_python(f, python)
    call = _PythonCalls(f, handle)
    fresh = f.icmp("eq", call("Py_IsInitialized"), f.const(I32, 0))
    home = _Home(f)

    def initialize() -> None:
        home.set(sys.base_prefix)
        call("Py_InitializeEx", f.const(I32, 0))

    f.if_(fresh, initialize)
    state = call("PyGILState_Ensure")
    script = _script()
    place = module.global_bytes("script", script, align=1, constant=False)
    _emit_digits(f, f.gep(place, script.index(_PLACE.encode()) + 2), f.ptrtoint(table))
    call("PyRun_SimpleString", place)
    call("PyGILState_Release", state)

    def give_back() -> None:
        home.restore()
        call("PyEval_SaveThread")

    f.if_(fresh, give_back)
    f.ret(f.atomic_load(PTR, table))
    return module


def _text(f: FunctionBuilder, name: str, text: str) -> Value:
    return f.owner.global_bytes(name, text.encode() + b"\0", align=1)


def _emit_find_python(f: FunctionBuilder, python: Path) -> Value:
    """Return the handle to look Python's functions up in: null is the process itself."""
    lookup = f.module.declare("dlsym", PTR, [PTR, PTR])
    load = f.module.declare("dlopen", PTR, [PTR, I32])
    probe = f.call(lookup, [zero(PTR), _text(f, "probe", "Py_IsInitialized")])

    def open_python() -> list[Value]:
        path = _text(f, "python", str(python))
        opened = f.call(load, [path, f.const(I32, _RTLD_NOW_GLOBAL)])

        def fail() -> None:
            _emit_say(f, f"libingot_pjrt: {_HINT}: ".encode())
            reason = f.call(f.module.declare("dlerror", PTR, []), [])
            size = f.call(f.module.declare("strlen", I64, [PTR]), [reason])
            _emit_write(f, reason, size)
            _emit_say(f, b"\n")
            f.ret(zero(PTR))

        f.if_(f.icmp("eq", opened, zero(PTR)), fail)
        return [opened]

    return f.if_(f.icmp("eq", probe, zero(PTR)), open_python, otherwise=[zero(PTR)])[0]


def _emit_say(f: FunctionBuilder, text: bytes) -> None:
    """Write a text to standard error."""
    place = f.owner.global_bytes(f"said.{len(text)}", text, align=1)
    _emit_write(f, place, f.const(I64, len(text)))


def _emit_write(f: FunctionBuilder, text: Value, size: Value) -> None:
    write = f.module.declare("write", I64, [I32, PTR, I64])
    discard(f.call(write, [f.const(I32, 2), text, size]))


class _Home:
    """Emits PYTHONHOME, which tells a Python that no program started where it lies.

    Without it Python looks for a `python3` in the host's PATH, and takes that one's modules.
    """

    def __init__(self, f: FunctionBuilder) -> None:
        self._f = f
        self._name = _text(f, "home.name", "PYTHONHOME")
        self._set = f.module.declare("setenv", I32, [PTR, PTR, I32])
        self._before = f.alloca(PTR)

    def set(self, home: str) -> None:
        """Set it, and keep what the host has."""
        f = self._f
        before = f.call(f.module.declare("getenv", PTR, [PTR]), [self._name])
        copy = f.module.declare("strdup", PTR, [PTR])
        (kept,) = f.if_(
            f.icmp("eq", before, zero(PTR)), lambda: [zero(PTR)], lambda: [f.call(copy, [before])]
        )
        f.store(kept, self._before)
        values = [self._name, _text(f, "home", home), f.const(I32, 1)]
        discard(f.call(self._set, values))

    def restore(self) -> None:
        """Set what the host had, or nothing."""
        f = self._f
        before = f.load(PTR, self._before)

        def remove() -> None:
            discard(f.call(f.module.declare("unsetenv", I32, [PTR]), [self._name]))

        def again() -> None:
            discard(f.call(self._set, [self._name, before, f.const(I32, 1)]))
            f.call(f.module.declare("free", VOID, [PTR]), [before])

        f.if_(f.icmp("eq", before, zero(PTR)), remove, again)


class _PythonCalls:
    """Emits calls of Python's functions, found by name."""

    def __init__(self, f: FunctionBuilder, handle: Value) -> None:
        self._f = f
        lookup = f.module.declare("dlsym", PTR, [PTR, PTR])
        self._found = {
            name: f.call(lookup, [handle, _text(f, f"name.{name}", name)]) for name in _FUNCTIONS
        }

    def __call__(self, name: str, *args: Value) -> Value:
        result, types = _FUNCTIONS[name]
        return self._f.call_indirect(self._found[name], result, types, list(args))


def _emit_digits(f: FunctionBuilder, place: Value, number: Value) -> None:
    """Write `number` as hexadecimal digits."""

    def digit(index: Value, _: list[Value]) -> None:
        shift = f.mul(f.sub(f.const(I64, _DIGITS - 1), index), f.const(I64, 4))
        value = f.and_(f.lshr(number, shift), f.const(I64, 15))
        letter = f.icmp("ugt", value, f.const(I64, 9))
        base = f.select(letter, f.const(I64, ord("a") - 10), f.const(I64, ord("0")))
        f.store(f.trunc(f.add(value, base), I8), f.gep(place, index))

    f.loop(0, _DIGITS, 1, [], digit)

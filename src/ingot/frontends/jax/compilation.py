# SPDX-License-Identifier: Apache-2.0
"""Programs for one device are passed from JAX to Ingot directly, not as a portable artifact.

For a backend behind the PJRT C API jaxlib legalizes each program to VHLO, so that a plugin of
another version can read it: 1.5 ms for a small program, half of a large one's compilation. This
plugin reads JAX's own MLIR objects and offers the program as HLO (`client.pjrt.module_handoff`).
JAX gets MLIR's own bytecode, which identifies the program and is kept, by the function that loads
executables from its cache, `deserialize_executable`: Ingot's serialized executable *is* the
program. Before the bytecode is a header with IFRT's description of parameters and results.

Invariant: a program takes this path only if, for all kinds of its parameters and results, jaxlib
was observed to write the same bytes as this module. A program with a new kind takes JAX's own path,
and is serialized by jaxlib for the comparison. Programs for several devices and those that Ingot
refuses take JAX's own path too, which reports errors as usual.

Source: jax/_src/compiler.py (backend_compile_and_load), xla/python/pjrt_ifrt/pjrt_executable.cc.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ingot.client import stored
from ingot.client.pjrt.module_handoff import offer_module
from ingot.client.pjrt.plugin import is_inherited, version
from ingot.client.pjrt.serialize import write_program
from ingot.client.pjrt.stored import store_under
from ingot.support.diagnostics import IngotError, UnsupportedError

if TYPE_CHECKING:
    from ingot.frontends.jax.headers import Header
    from ingot.hlo.module import Module

_OWN_WAY = (b"mhlo.layout_mode",)
"""Attributes of parameters and results that IFRT reads in the module itself, as bytecode names
them."""

_EXPANDED = ("erfc",)
"""Ops that jaxlib writes out as others, in programs that it passes as bytes."""
_EXPANDED_COMPLEX = ("exponential", "log", "log-plus-one", "sqrt")
"""Those of complex numbers, which it writes out as ops of real ones."""


class _Given(NamedTuple):
    """The arguments of a compilation by JAX."""

    program: Any
    devices: Any
    options: Any
    callbacks: bool


class _Trust:
    """The kinds of fields that were compared with jaxlib's bytes: equal, or not."""

    alike: ClassVar[set[Hashable]] = set()
    different: ClassVar[set[Hashable]] = set()

    @classmethod
    def compare(cls, header: Header, serialized: bytes) -> None:
        """Record whether jaxlib wrote the same bytes; kinds known as equal are never blamed."""
        found = cls.alike if serialized.startswith(header.data) else cls.different
        found |= header.kinds - cls.alike


def install_compilation() -> None:
    """Make JAX's compilations for Ingot pass the program and its callbacks directly."""
    from jax._src import compiler, traceback_util

    module: Any = compiler
    original = module.backend_compile_and_load
    refused = importlib.import_module("jax._src.lib")._jax.JaxRuntimeError

    @functools.wraps(original)
    def compile_and_load(
        backend: Any, program: Any, devices: Any, options: Any, host_callbacks: Sequence[Any]
    ) -> Any:
        if "ingot" not in backend.platform_version:
            return original(backend, program, devices, options, host_callbacks)
        if is_inherited():
            raise _forked()
        with _with_callbacks(program, host_callbacks) as given:
            ordinary = functools.partial(original, backend, given, devices, options, [])
            if len(devices) != 1 or options.compile_portable_executable:
                return ordinary()
            program = _Given(given, devices, options, bool(host_callbacks))
            return _compile_directly(ordinary, refused, backend, program)

    module.backend_compile_and_load = compile_and_load
    traceback_util.register_exclusion(__file__)
    cross_compile = getattr(module, "_get_cross_compile_backend", None)
    if cross_compile is None:  # Before 0.10 JAX compiles for its devices only.
        return

    def real_backend(backend: Any) -> Any:
        """Never compile for a topology through the real client, which holds the GIL."""
        return None if "ingot" in backend.platform_version else cross_compile(backend)

    module._get_cross_compile_backend = real_backend


def _forked() -> UnsupportedError:
    return UnsupportedError(
        "JAX cannot compile in a forked child of a process that used it: jaxlib would wait for "
        "threads that only the parent has",
        hint='start children with multiprocessing.get_context("spawn") or "forkserver"; '
        "compiled functions still run, and ingot.compile works",
    )


def _compile_directly(
    ordinary: Callable[[], Any], refused: type[Exception], backend: Any, given: _Given
) -> Any:
    """Compile a program for one device; `ordinary()` is JAX's own path, `refused` its exception."""
    code = _bytecode(given.program)
    if any(name in code for name in _OWN_WAY):
        return ordinary()
    is_small = len(code) <= stored.MOST_BYTES

    def load(header: bytes) -> Any:
        serialized = header + _executable(code)
        return backend.deserialize_executable(serialized, given.devices, given.options)

    name = stored.entry_name("header", _jaxlib_version(), code.hex()) if is_small else ""
    known = stored.read(name)
    if known is not None:
        with contextlib.suppress(refused):
            return load(known)
        return ordinary()
    module, header = _described(given.program)
    if module is None or header is None or header.kinds & _Trust.different:
        return ordinary()
    executable = None
    if not header.kinds <= _Trust.alike:
        executable = ordinary()
        serialized = executable.serialize()
        _Trust.compare(header, serialized)
        if header.kinds <= _Trust.alike and _is_rewritten(module):
            # It means the same whether or not its kinds were known.
            executable = None
        elif header.kinds <= _Trust.alike and name:
            store_under(code, serialized[len(header.data) :], version())
    if header.kinds <= _Trust.alike and not given.callbacks:
        stored.write(name, header.data)
    if executable is not None:
        return executable
    with contextlib.suppress(refused), offer_module(code, module):
        return load(header.data)
    return ordinary()


def _is_rewritten(module: Module) -> bool:
    """Whether jaxlib passes other ops than the program's, which round in another way."""
    return any(
        instruction.opcode in _EXPANDED
        or (instruction.opcode in _EXPANDED_COMPLEX and instruction.shape.dtype.is_complex)
        for computation in module.computations.values()
        for instruction in computation.instructions
    )


def _with_callbacks(program: Any, callbacks: Sequence[Any]) -> AbstractContextManager[Any]:
    """Return a context in which a program can be compiled: it gives the module to compile."""
    if not callbacks:
        return contextlib.nullcontext(program)
    from ingot.frontends.jax.callbacks import numbered_callbacks

    return numbered_callbacks(program, callbacks)


def _bytecode(program: Any) -> bytes:
    code = io.BytesIO()
    program.operation.write_bytecode(code)
    return code.getvalue()


def _executable(code: bytes) -> bytes:
    """Return a program as an executable serialized by Ingot, without its options."""
    return write_program(code, "mlir", b"", version())


def _described(program: Any) -> tuple[Module | None, Header | None]:
    """Return a program as HLO, read from JAX's own objects, and its header; None if Ingot cannot.

    The readers of StableHLO are imported here, for programs that are not on the disk.
    """
    from ingot.formats.stablehlo.parse import convert_module
    from ingot.frontends.jax.headers import executable_header

    try:
        module = convert_module(program)
    except (IngotError, RecursionError):
        return None, None
    return module, executable_header(module)


@functools.cache
def _jaxlib_version() -> str:
    return str(importlib.import_module("jaxlib").__version__)

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
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

from ingot.client.pjrt.module_handoff import offer_module
from ingot.client.pjrt.objects import MEMORY_KINDS
from ingot.client.pjrt.plugin import is_inherited, version
from ingot.client.pjrt.serialize import write_program
from ingot.formats.hlo_proto.shapes import type_number
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.formats.stablehlo.parse import convert_module
from ingot.frontends.jax.callbacks import numbered_callbacks
from ingot.hlo.donors import read_donors
from ingot.hlo.dtype import DType
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.semantics.memory_kinds import read_memory_kinds
from ingot.support.diagnostics import IngotError, UnsupportedError

_VERSION, _RUNTIME, _LAYOUT = 3, "pjrt_ifrt", "xla::ifrt::PjRtLayout"
_MESSAGE = "IfrtExecutable"
_KEPT = 1024
"""Fields whose bytes are cached: programs have many of a few kinds."""
_OWN_WAY = (b"mhlo.layout_mode",)
"""Attributes of parameters and results that IFRT reads in the module itself, as bytecode names
them."""
_BEGIN = encode({"ifrt_version_number": _VERSION, "runtime_name": _RUNTIME}, _MESSAGE)
_END = encode({"executable_version": {}}, _MESSAGE)


class _Given(NamedTuple):
    """The arguments of a compilation by JAX."""

    program: Any
    devices: Any
    options: Any


class _Parameter(NamedTuple):
    """IFRT's description of a parameter."""

    rank: int
    is_donated: bool


class _Output(NamedTuple):
    """IFRT's description of a result."""

    dims: tuple[int, ...]
    dtype: DType
    memory_kind: str


class _Header(NamedTuple):
    """IFRT's header of a serialized executable, and the kinds of its fields."""

    data: bytes
    kinds: frozenset[Hashable]


class _Trust:
    """The kinds of fields that were compared with jaxlib's bytes: equal, or not."""

    alike: ClassVar[set[Hashable]] = set()
    different: ClassVar[set[Hashable]] = set()

    @classmethod
    def compare(cls, header: _Header, serialized: bytes) -> None:
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
        with numbered_callbacks(program, host_callbacks) as given:
            ordinary = functools.partial(original, backend, given, devices, options, [])
            if len(devices) != 1 or options.compile_portable_executable:
                return ordinary()
            return _compile_directly(ordinary, refused, backend, _Given(given, devices, options))

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
        hint='start children with multiprocessing.get_context("spawn") or "forkserver"; what is '
        "compiled already runs, and ingot.compile works",
    )


def _compile_directly(
    ordinary: Callable[[], Any], refused: type[Exception], backend: Any, given: _Given
) -> Any:
    """Compile a program for one device; `ordinary()` is JAX's own path, `refused` its exception."""
    code = _bytecode(given.program)
    module = None if any(name in code for name in _OWN_WAY) else _module(given.program)
    header = None if module is None else executable_header(module)
    if module is None or header is None or header.kinds & _Trust.different:
        return ordinary()
    if not header.kinds <= _Trust.alike:
        executable = ordinary()
        _Trust.compare(header, executable.serialize())
        return executable
    serialized = header.data + _executable(code)
    with contextlib.suppress(refused), offer_module(code, module):
        return backend.deserialize_executable(serialized, given.devices, given.options)
    return ordinary()


def _bytecode(program: Any) -> bytes:
    code = io.BytesIO()
    program.operation.write_bytecode(code)
    return code.getvalue()


def _module(program: Any) -> Module | None:
    """Return a program as HLO, read from JAX's own objects; None if Ingot cannot."""
    try:
        return convert_module(program)
    except (IngotError, RecursionError):
        return None


def _executable(code: bytes) -> bytes:
    """Return a program as an executable serialized by Ingot, without its options."""
    return write_program(code, "mlir", b"", version())


def executable_header(module: Module) -> _Header | None:
    """Return IFRT's header of a serialized executable; None if it is not known here."""
    result = module.result_shape
    parameters = _plain_shapes(module.parameter_shapes)
    outputs = _plain_shapes(result.elements if result.is_tuple else (result,))
    if parameters is None or outputs is None:
        return None
    donated = {alias.parameter for alias in module.aliases}
    donated.update(number for number, _ in read_donors(module))
    kinds = read_memory_kinds(module) or repeat(MEMORY_KINDS[0])
    given = [_Parameter(shape.rank, n in donated) for n, shape in enumerate(parameters)]
    wanted = [
        _Output(shape.static_dims, shape.dtype, kind)
        for shape, kind in zip(outputs, kinds, strict=False)
    ]
    data = b"".join((
        _BEGIN,
        *map(_output_bytes, wanted),
        *map(_parameter_bytes, given),
        _name_bytes(module.name),
        _END,
    ))  # fmt: skip
    return _Header(_varint(len(data)) + data, _kinds(given, wanted))


def _kinds(parameters: list[_Parameter], outputs: list[_Output]) -> frozenset[Hashable]:
    """Return the kinds of a header's fields, on which jaxlib's bytes may depend."""
    given = [("parameter", row.rank > 0, row.is_donated) for row in parameters]
    results = [
        ("output", row.dtype, len(row.dims) > 0, 0 in row.dims, row.memory_kind) for row in outputs
    ]
    return frozenset([*given, *results, ("empty", not given, not results)])


def _plain_shapes(shapes: Sequence[Shape]) -> Sequence[Shape] | None:
    """Return the shapes if all are of static arrays, else None."""
    plain = all(shape.is_array and shape.is_static and not shape.bounded for shape in shapes)
    return shapes if plain else None


@functools.lru_cache(_KEPT)
def _name_bytes(name: str) -> bytes:
    return encode({"computation_name": name}, _MESSAGE)


@functools.lru_cache(_KEPT)
def _output_bytes(row: _Output) -> bytes:
    dims: Message = {"dims": list(row.dims)}
    output = {
        "shape": dims,
        "shard_shape": dims,
        "dtype": {"kind": type_number(row.dtype)},
        "memory_kind": row.memory_kind,
    }
    return encode({"output_specs": [output]}, _MESSAGE)


@functools.lru_cache(_KEPT)
def _parameter_bytes(row: _Parameter) -> bytes:
    order: Message = {
        "minor_to_major": list(reversed(range(row.rank))),
        "tail_padding_alignment_in_elements": 1,
    }
    layout = {"type_name": _LAYOUT, "data": encode({"layout": order}, "IfrtPjRtLayout")}
    parameter = {"layout": {"serialized": layout}, "donated_input": row.is_donated}
    return encode({"parameter_specs": [parameter]}, _MESSAGE)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

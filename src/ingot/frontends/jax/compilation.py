"""Programs for one device go from JAX to Ingot as they are, not as a portable artifact.

For a backend behind the PJRT C API jaxlib legalizes each program to VHLO, so that a plugin of
another age can read it: 1.5 ms of a small program, half of a large one's compilation. This plugin
reads with the very MLIR that JAX writes with, so the program is handed over as MLIR's own bytecode,
the way by which JAX loads executables from its cache: `deserialize_executable`, where Ingot's
serialized executable *is* the program. In front of it stands what IFRT wants to know of results.

Invariant: the first program of a process takes JAX's own way and is serialized by jaxlib; this way
is taken only if what jaxlib put in front is, byte by byte, what is written here. Programs for
several devices and those that Ingot refuses take JAX's own way too, which reports as ever.

Source: jax/_src/compiler.py (backend_compile_and_load), xla/python/pjrt_ifrt/pjrt_executable.cc.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Sequence
from typing import Any

from ingot.client.pjrt.objects import MEMORY_KINDS
from ingot.client.pjrt.plugin import version
from ingot.client.pjrt.serialize import write_program
from ingot.formats.hlo_proto.shapes import type_number
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.formats.stablehlo.types import Types
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import IngotError

_VERSION, _RUNTIME, _LAYOUT = 3, "pjrt_ifrt", "xla::ifrt::PjRtLayout"
_DONATED = ("tf.aliasing_output", "jax.buffer_donor")
_MEMORY_KIND = "mhlo.memory_kind"
_OWN_WAY = ("mhlo.layout_mode",)
"""Attributes of parameters and results that IFRT reads in the module itself."""


class _Trust:
    """Whether jaxlib writes what is written here; None before it was seen."""

    found: bool | None = None


def install_compilation() -> None:
    """Let JAX's compilations for one device of Ingot hand over the program as it is."""
    from jax._src import compiler

    module: Any = compiler
    original = module.backend_compile_and_load

    @functools.wraps(original)
    def compile_and_load(
        backend: Any, program: Any, devices: Any, options: Any, host_callbacks: Sequence[Any]
    ) -> Any:
        ordinary = functools.partial(original, backend, program, devices, options, host_callbacks)
        ours = "ingot" in backend.platform_version and len(devices) == 1
        if not ours or host_callbacks or options.compile_portable_executable:
            return ordinary()
        header = None if _Trust.found is False else executable_header(program)
        if header is None:
            return ordinary()
        if _Trust.found is None:
            executable = ordinary()
            _Trust.found = executable.serialize().startswith(header)
            return executable
        with contextlib.suppress(module._jax.JaxRuntimeError):
            serialized = header + _executable(program, options)
            return backend.deserialize_executable(serialized, devices, options)
        return ordinary()

    module.backend_compile_and_load = compile_and_load


def _executable(program: Any, options: Any) -> bytes:
    """Return a program as an executable that Ingot serialized."""
    code = io.BytesIO()
    program.operation.write_bytecode(code)
    return write_program(code.getvalue(), "mlir", options.SerializeAsString(), version())


def executable_header(program: Any) -> bytes | None:
    """Return what IFRT puts in front of a serialized executable; None if that is not known here."""
    operations = program.operation.regions[0].blocks[0].operations
    entry = next((op for op in operations if op.attributes["sym_name"].value == "main"), None)
    if entry is None:
        return None
    arguments, results = _dictionaries(entry, "arg_attrs"), _dictionaries(entry, "res_attrs")
    if any(name in given for given in (*arguments, *results) for name in _OWN_WAY):
        return None
    types, kind = Types(), entry.attributes["function_type"].value
    try:
        parameters = _plain_shapes([types.shape(item) for item in kind.inputs])
        outputs = _plain_shapes([types.shape(item) for item in kind.results])
    except IngotError:
        return None
    if parameters is None or outputs is None:
        return None
    message: Message = {
        "ifrt_version_number": _VERSION,
        "runtime_name": _RUNTIME,
        "output_specs": [
            _output(shape, results[number] if results else {})
            for number, shape in enumerate(outputs)
        ],
        "parameter_specs": [
            _parameter(shape, arguments[number] if arguments else {})
            for number, shape in enumerate(parameters)
        ],
        "computation_name": program.operation.attributes["sym_name"].value,
        "executable_version": {},
    }
    data = encode(message, "IfrtExecutable")
    return _varint(len(data)) + data


def _dictionaries(entry: Any, name: str) -> list[Any]:
    return list(entry.attributes[name]) if name in entry.attributes else []


def _plain_shapes(shapes: list[Shape | None]) -> list[Shape] | None:
    """Return shapes that are all known and of static arrays; None if one is not."""
    plain = [s for s in shapes if s is not None and s.is_array and s.is_static and not s.bounded]
    return plain if len(plain) == len(shapes) else None


def _output(shape: Shape, given: Any) -> Message:
    dims: Message = {"dims": list(shape.dims)}
    kind = given[_MEMORY_KIND].value if _MEMORY_KIND in given else MEMORY_KINDS[0]
    return {
        "shape": dims,
        "shard_shape": dims,
        "dtype": {"kind": type_number(shape.dtype)},
        "memory_kind": kind,
    }


def _parameter(shape: Shape, given: Any) -> Message:
    order: Message = {
        "minor_to_major": list(reversed(range(shape.rank))),
        "tail_padding_alignment_in_elements": 1,
    }
    layout = {"type_name": _LAYOUT, "data": encode({"layout": order}, "IfrtPjRtLayout")}
    return {
        "layout": {"serialized": layout},
        "donated_input": any(name in given for name in _DONATED),
    }


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

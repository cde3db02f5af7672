# SPDX-License-Identifier: Apache-2.0
"""IFRT's description of a program's parameters and results, as jaxlib serializes it.

It comes before the program in the bytes that jaxlib loads executables from.

Source: xla/python/pjrt_ifrt/pjrt_executable.cc.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from itertools import repeat
from typing import NamedTuple

from ingot.client.pjrt.objects import MEMORY_KINDS
from ingot.formats.hlo_proto.shapes import type_number
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.hlo.donors import read_donors
from ingot.hlo.dtype import DType
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.semantics.memory_kinds import read_memory_kinds

_VERSION, _RUNTIME, _LAYOUT = 3, "pjrt_ifrt", "xla::ifrt::PjRtLayout"
_MESSAGE = "IfrtExecutable"
_KEPT = 1024
"""Fields whose bytes are cached: programs have many of a few kinds."""
_BEGIN = encode({"ifrt_version_number": _VERSION, "runtime_name": _RUNTIME}, _MESSAGE)
_END = encode({"executable_version": {}}, _MESSAGE)


class _Parameter(NamedTuple):
    """IFRT's description of a parameter."""

    rank: int
    is_donated: bool


class _Output(NamedTuple):
    """IFRT's description of a result."""

    dims: tuple[int, ...]
    dtype: DType
    memory_kind: str


class Header(NamedTuple):
    """IFRT's header of a serialized executable, and the kinds of its fields."""

    data: bytes
    kinds: frozenset[Hashable]


def executable_header(module: Module) -> Header | None:
    """Return IFRT's header of a serialized executable; None if it is not known here."""
    result = module.result_shape
    parameters = _plain_shapes(module.parameter_shapes)
    outputs = _plain_shapes(result.parts)
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
    return Header(_varint(len(data)) + data, _kinds(given, wanted))


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

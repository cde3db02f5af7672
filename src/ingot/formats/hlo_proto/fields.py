# SPDX-License-Identifier: Apache-2.0
"""Attribute fields of the op table in the proto: one table row per field that is not plain.

A field of the op table with the proto's name and type needs no row: `plan` makes one from its
codec. `ROWS` lists the others, by field, or by (opcode, field) where a name means different things.
Each row reads a value from an instruction's message and writes it into one.

Invariant: reading what was written gives the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, Field
from functools import cache
from typing import Any

import numpy as np

from ingot.formats.hlo_proto import structures as structure
from ingot.formats.hlo_proto.shapes import read_literal, write_literal
from ingot.formats.hlo_proto.wire import Message, broken
from ingot.hlo.literal import Literal
from ingot.hlo.opdef import Codec, OpDef
from ingot.hlo.opset.contraction import DOT_ALGORITHMS
from ingot.hlo.opset.structural import API_VERSIONS
from ingot.support.records import record
from ingot.support.regex import regex

Read = Callable[[Message], Any]
Write = Callable[[Message, Any], None]


@record
class Row:
    """The form of one attribute field in an instruction's message."""

    read: Read
    write: Write


def _at(message: Message, path: tuple[str, ...]) -> Message | None:
    """Return the message at `path`, None when it is not set."""
    found: Message | None = message
    for name in path:
        found = found.get(name) if found is not None else None
    return found


def _made(message: Message, path: tuple[str, ...]) -> Message:
    for name in path:
        message = message.setdefault(name, {})
    return message


def _value(name: str, empty: Any, convert: Callable[[Any], Any] = lambda value: value) -> Row:
    """Return the row of a value at the dotted path `name`; `empty` is the value if not set."""
    *path, last = name.split(".")

    def read(message: Message) -> Any:
        holder = _at(message, tuple(path))
        found = holder.get(last) if holder is not None else None
        return empty if found is None else convert(found)

    def write(message: Message, value: Any) -> None:
        _made(message, tuple(path))[last] = value

    return Row(read, write)


def _name(name: str, empty: Any = MISSING) -> Row:
    """Return the row of an identifier: text prints it without quotes. It must be set or `empty`."""

    def convert(text: str) -> str:
        if _NAME.fullmatch(text) is None:
            raise broken(f"{name} is {text!r}")
        return text

    row = _value(name, "" if empty is MISSING else empty, convert)

    def read(message: Message) -> str:
        found: str = row.read(message)
        if empty is MISSING and not found:
            raise broken(f"{name} is missing")
        return found

    return Row(read, row.write)


def _numbers(name: str) -> Row:
    return _value(name, (), tuple)


def _number(name: str) -> Row:
    return _value(name, 0)


def _flag(name: str) -> Row:
    return _value(name, False)


def _one_of(name: str, values: dict[str, int], empty: str) -> Row:
    """Return the row of an enumeration, which the op table has as text."""
    texts = {number: text for text, number in values.items()}
    plain = _value(name, 0)

    def read(message: Message) -> str:
        number = plain.read(message)
        if number not in texts and number:
            raise broken(f"{name} has no value {number}")
        return texts.get(number, empty)

    def write(message: Message, value: str) -> None:
        plain.write(message, values[value])

    return Row(read, write)


def _first(name: str) -> Row:
    """Return the row of one number that the proto has as a list."""
    return Row(
        lambda message: (message.get(name) or [0])[0],
        lambda message, value: message.update({name: [value]}),
    )


def _optional(name: str) -> Row:
    """Return the row of a number that may be absent: 0 is none, as in XLA."""
    return Row(
        lambda message: message.get(name) or None,
        lambda message, value: message.update({name: value or 0}),
    )


def _text_bytes(name: str) -> Row:
    return Row(
        lambda message: message.get(name, b"").decode("utf-8", "surrogateescape"),
        lambda message, value: message.update({name: value.encode("utf-8", "surrogateescape")}),
    )


def _converted(
    name: str, read: Callable[[Any], Any], write: Callable[[Any], Any], empty: Any
) -> Row:
    """Return the row of a field with a form of its own; the value `empty` is not written."""

    def put(message: Message, value: Any) -> None:
        if value != empty:
            message[name] = write(value)

    return Row(lambda message: read(message[name]) if name in message else empty, put)


def _constant(message: Message) -> Literal:
    if "literal" not in message:
        raise broken("a constant has no literal")
    return read_literal(message["literal"])


def _whole(read: Read, write: Callable[[Any], Message]) -> Row:
    """Return the row of a value that takes several fields of the instruction."""
    return Row(read, lambda message, value: message.update(write(value)))


_NAME = regex(r"[\w.\-]*", re.ASCII)
_DOT = {
    "lhs_batch_dims": "lhs_batch_dimensions",
    "lhs_contracting_dims": "lhs_contracting_dimensions",
    "rhs_batch_dims": "rhs_batch_dimensions",
    "rhs_contracting_dims": "rhs_contracting_dimensions",
}
_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
)
_FFT = {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3}
_RANDOM = {"rng_default": 0, "rng_three_fry": 1, "rng_philox": 2}
_DISTRIBUTIONS = {"rng_uniform": 1, "rng_normal": 2}
_TRANSPOSE = {"NO_TRANSPOSE": 1, "TRANSPOSE": 2, "ADJOINT": 3}
_TRI_STATE = {"": 0, "true": 1, "false": 2}
# What is not written is the original version.
_API = {**{name: number for number, name in enumerate(API_VERSIONS)}, "": 1}
_DOT_ALGORITHMS = {"": 0, **{name: number for number, name in enumerate(DOT_ALGORITHMS, 1)}}

# Field, or (opcode, field): row.
ROWS: dict[str | tuple[str, str], Row] = {
    "number": _number("parameter_number"),
    "literal": Row(_constant, lambda message, value: message.update(literal=write_literal(value))),
    "index": _number("tuple_index"),
    ("fusion", "kind"): _name("fusion_kind"),
    "iota_dimension": _first("dimensions"),
    "direction": _name("comparison_direction"),
    ("compare", "type"): _name("comparison_type", ""),
    "slice": _converted("slice_dimensions", structure.read_slice, structure.write_slice, ()),
    "padding": _converted("padding_config", structure.read_padding, structure.write_padding, ()),
    "window": _converted("window", structure.read_window, structure.write_window, ()),
    "dim_labels": _converted(
        "convolution_dimension_numbers", structure.read_labels, structure.write_labels, ""
    ),
    "operand_precision": _whole(structure.read_precision, structure.write_precision),
    ("dot", "algorithm"): _one_of("precision_config.algorithm", _DOT_ALGORITHMS, ""),
    ("scaled-dot", "algorithm"): _one_of("precision_config.algorithm", _DOT_ALGORITHMS, ""),
    ("ragged-dot", "algorithm"): _one_of("precision_config.algorithm", _DOT_ALGORITHMS, ""),
    ("rng-bit-generator", "algorithm"): _one_of("rng_algorithm", _RANDOM, "rng_default"),
    "distribution": _one_of("distribution", _DISTRIBUTIONS, ""),
    "result_accuracy": _converted(
        "result_accuracy", structure.read_accuracy, structure.write_accuracy, ""
    ),
    ("gather", "index_vector_dim"): _number("gather_dimension_numbers.index_vector_dim"),
    ("scatter", "index_vector_dim"): _number("scatter_dimension_numbers.index_vector_dim"),
    ("gather", "slice_sizes"): _numbers("gather_slice_sizes"),
    ("cholesky", "lower"): _flag("cholesky_options.lower"),
    **{
        ("triangular-solve", name): _flag(f"triangular_solve_options.{name}")
        for name in ("left_side", "lower", "unit_diagonal")
    },
    "transpose_a": _one_of("triangular_solve_options.transpose_a", _TRANSPOSE, "NO_TRANSPOSE"),
    "fft_type": _one_of("fft_type", _FFT, "FFT"),
    "channel_id": _optional("channel_id"),
    "cross_program_prefetch_index": Row(
        lambda message: message.get("cross_program_prefetch_index"),
        lambda message, value: message.update({"cross_program_prefetch_index": value}),
    ),
    "replica_groups": _whole(structure.read_groups, structure.write_groups),
    "source_target_pairs": _converted(
        "source_target_pairs", structure.read_pairs, structure.write_pairs, ()
    ),
    "domain": _whole(structure.read_domain, structure.write_domain),
    # The proto's number is a float: its shortest text is the intended value.
    "epsilon": _value("epsilon", 0.0, lambda value: float(str(np.float32(value)))),
    "api_version": _one_of("custom_call_api_version", _API, ""),
    "output_to_operand_aliasing": _converted(
        "output_operand_aliasing", structure.read_aliasing, structure.write_aliasing, ""
    ),
    "operand_layout_constraints": _whole(structure.read_layouts, structure.write_layouts),
    "infeed_config": _text_bytes("infeed_config"),
    "outfeed_config": _text_bytes("outfeed_config"),
    "outfeed_shape": _converted(
        "outfeed_shape", structure.read_shape_text, structure.write_shape_text, ""
    ),
    "lhs_ragged_dims": _numbers("ragged_dot_dimension_numbers.lhs_ragged_dimensions"),
    "rhs_group_dims": _numbers("ragged_dot_dimension_numbers.rhs_group_dimensions"),
    "is_associative": _one_of("is_associative", _TRI_STATE, ""),
    **{name: _numbers(f"dot_dimension_numbers.{proto}") for name, proto in _DOT.items()},
    **{
        ("ragged-dot", name): _numbers(
            f"ragged_dot_dimension_numbers.dot_dimension_numbers.{proto}"
        )
        for name, proto in _DOT.items()
    },
    **{("gather", name): _numbers(f"gather_dimension_numbers.{name}") for name in _GATHER},
    **{("scatter", name): _numbers(f"scatter_dimension_numbers.{name}") for name in _SCATTER},
}
_COMPUTATIONS = (Codec.COMPUTATION, Codec.COMPUTATIONS)
# Fields that HLO text has and the proto has not.
_TEXT_ONLY = frozenset(
    (
        "mode",
        "async_group_id",
        ("collective-permute", "slice_sizes"),
        ("collective-permute-start", "slice_sizes"),
    )
)


@cache
def plan(definition: OpDef) -> tuple[tuple[str, Row, Any], ...]:
    """Return (field, row, default) of each attribute that is no computation."""
    found: list[tuple[str, Row, Any]] = []
    for field in definition.fields:
        key = (definition.name, field.name)
        codec = field.metadata["codec"]
        if codec in _COMPUTATIONS or field.name in _TEXT_ONLY or key in _TEXT_ONLY:
            continue
        row = ROWS.get(key) or ROWS.get(field.name) or _plain(field)
        found.append((field.name, row, field.default))
    return tuple(found)


def _plain(field: Field[Any]) -> Row:
    """Return the row of a field that the proto has under the same name."""
    codec, name, default = field.metadata["codec"], field.name, field.default
    if codec is Codec.BOOL:
        return _flag(name)
    if codec is Codec.INTS:
        return _numbers(name)
    if codec is Codec.INT:
        return _value(name, 0 if default is MISSING else default)
    if codec is Codec.FLOAT:
        return _value(name, 0.0)
    if codec is Codec.NAME:
        return _name(name, default)
    return _value(name, "" if default is MISSING else default)

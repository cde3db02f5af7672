# SPDX-License-Identifier: Apache-2.0
"""The structures and numbers of the XLA FFI C API that Ingot fills or reads.

Source: xla/ffi/api/c_api.h, version 0.3.
"""

from __future__ import annotations

from enum import IntEnum

from ingot.native.layout import Field, Record
from ingot.support.diagnostics import UnsupportedError
from ingot.support.regex import regex

API_MAJOR, API_MINOR = 0, 3


def _record(name: str, *fields: tuple[str, str]) -> Record:
    head = (Field("struct_size", "i64"), Field("extension_start", "ptr"))
    return Record(name, *head, *(Field(label, kind) for label, kind in fields))


BUFFER = _record(
    "XLA_FFI_Buffer", ("dtype", "i32"), ("data", "ptr"), ("rank", "i64"), ("dims", "ptr")
)
ARGS = _record("XLA_FFI_Args", ("size", "i64"), ("types", "ptr"), ("args", "ptr"))
ATTRS = _record(
    "XLA_FFI_Attrs", ("size", "i64"), ("types", "ptr"), ("names", "ptr"), ("attrs", "ptr")
)
CALL_FRAME = Record(
    "XLA_FFI_CallFrame",
    Field("struct_size", "i64"),
    Field("extension_start", "ptr"),
    Field("api", "ptr"),
    Field("ctx", "ptr"),
    Field("stage", "i32"),
    # XLA_FFI_Args, XLA_FFI_Rets, XLA_FFI_Attrs, in place.
    Field("args", "i64", count=ARGS.size // 8),
    Field("rets", "i64", count=ARGS.size // 8),
    Field("attrs", "i64", count=ATTRS.size // 8),
    Field("future", "ptr"),
)
CALL_FRAME_SIZE = CALL_FRAME.offset("future")
"""The header's `struct_size` of a call frame: up to `attrs`."""

API_VERSION = _record("XLA_FFI_Api_Version", ("major_version", "i32"), ("minor_version", "i32"))
METADATA = Record(
    "XLA_FFI_Metadata",
    Field("struct_size", "i64"),
    Field("api_struct_size", "i64"),
    Field("api_extension_start", "ptr"),
    Field("major_version", "i32"),
    Field("minor_version", "i32"),
    Field("traits", "i32"),
    Field("state_type_id", "i64"),
)
METADATA_EXTENSION = Record(
    "XLA_FFI_Metadata_Extension",
    Field("struct_size", "i64"),
    Field("type", "i32"),
    Field("next", "ptr"),
    Field("metadata", "ptr"),
)
METADATA_EXTENSION_TYPE = 1

SCALAR = Record("XLA_FFI_Scalar", Field("dtype", "i32"), Field("value", "ptr"))
ARRAY = Record("XLA_FFI_Array", Field("dtype", "i32"), Field("size", "i64"), Field("data", "ptr"))
BYTE_SPAN = Record("XLA_FFI_ByteSpan", Field("ptr", "ptr"), Field("len", "i64"))

CONTEXT = Record(
    "IngotFfiContext",
    Field("runtime", "ptr", note="the IngotRuntime of the execution"),
    Field("site", "i64", note="number of the call site, for its state"),
)
"""The record that our `XLA_FFI_ExecutionContext*` points to."""


class AttributeType(IntEnum):
    """`XLA_FFI_AttrType`."""

    ARRAY = 1
    DICTIONARY = 2
    SCALAR = 3
    STRING = 4


class Stage(IntEnum):
    """`XLA_FFI_ExecutionStage`."""

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


ERROR_CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""Names of `XLA_FFI_Error_Code`, by number."""

DATA_TYPES = {
    "pred": 1, "s1": 30, "s2": 26, "s4": 21, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u1": 31,
    "u2": 27, "u4": 22, "u8": 6, "u16": 7, "u32": 8, "u64": 9, "f16": 10, "f32": 11, "f64": 12,
    "bf16": 16, "c64": 15, "c128": 18, "token": 17, "f8e5m2": 19, "f8e3m4": 29, "f8e4m3": 28,
    "f8e4m3fn": 20, "f8e4m3b11fnuz": 23, "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "f4e2m1fn": 32,
    "f8e8m0fnu": 33,
}  # fmt: skip
"""`XLA_FFI_DataType` of our element types."""

_MLIR = regex(r"(u?i|f|bf)(\d+)")
_KINDS = {"ui": "u", "i": "s"}
_PREDS = ("bool", "i1")


def element_of_mlir(name: str) -> str:
    """Return our element type of an MLIR one (`ui8`, `i64`, `f32`, `bool`).

    Raises:
        UnsupportedError: INGOT0333 XLA's FFI has no such type.

    Example:
        >>> element_of_mlir("ui8"), element_of_mlir("i1")
        ('u8', 'pred')
    """
    match = _MLIR.fullmatch(name)
    kind, bits = match.groups() if match is not None else ("", "")
    element = _KINDS.get(kind, kind) + bits if name not in _PREDS else "pred"
    if element not in DATA_TYPES:
        raise UnsupportedError(
            f"attributes of type '{name}' have no XLA FFI data type",
            code="INGOT0333",
            hint="give it as bool, i8 to i64, ui8 to ui64, f16, bf16, f32 or f64",
        )
    return element

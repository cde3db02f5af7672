# SPDX-License-Identifier: Apache-2.0
"""The tables of the C API against the C header that TensorFlow ships."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from ingot.client.pjrt.c_api import API, ARGUMENTS, HEADER_BYTES, TYPE_NAMES, record

_KINDS = {
    **{"size_t": "i64", "int64_t": "i64", "uint64_t": "i64", "intptr_t": "i64"},
    **{"uintptr_t": "i64", "int": "i32", "int32_t": "i32", "bool": "i8", "float": "f32"},
}
_LAYOUT_FIELDS = 10


def header() -> str:
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        pytest.skip("TensorFlow, which ships the header, is not installed")
    path = Path(found.origin).parent / "include/xla/pjrt/c/pjrt_c_api.h"
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def kind_of(type_name: str) -> str:
    base = type_name.replace("const ", "").replace("struct ", "").strip()
    if "*" in base or base.endswith("Callback") or "ValueDeleter" in base:
        return "ptr"
    return _KINDS.get(base, "i32" if base.startswith("PJRT_") else base)


def fields_of(body: str) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    for line in (" ".join(part.split()) for part in body.split(";")):
        pointer = re.match(r".*\(\*(\w+)\)\(.*\)$", line)
        if pointer:
            fields.append((pointer[1], "ptr"))
        elif line:
            plain = re.match(r"(.*?)(\w+)$", line)
            assert plain is not None
            fields.append((plain[2], kind_of(plain[1])))
    return fields


def structs(text: str) -> dict[str, list[tuple[str, str]]]:
    found = re.findall(r"struct (PJRT_\w+)_Args\s*\{(.*?)\n\}", text, flags=re.DOTALL)
    return {name: fields_of(body) for name, body in found}


def test_argument_structs_are_those_of_the_header():
    checked = 0
    for name, fields in structs(header()).items():
        if f"\n{name}:" not in ARGUMENTS:
            continue
        layout = record(name)
        ours = [field for field in layout.names if not field.startswith("_")]
        if name == "PJRT_Buffer_GetMemoryLayout":
            assert len(ours) == len(fields) - 1 + _LAYOUT_FIELDS
            continue
        assert ours == [field for field, _ in fields], name
        for field, kind in fields:
            assert layout.kind(field) == kind, (name, field)
        checked += 1
    assert checked > 110


def test_the_table_has_the_order_of_the_header():
    body = header().split("typedef struct PJRT_Api {")[1]
    names = re.findall(r"_PJRT_API_STRUCT_FIELD\((\w+)\)", body)
    # What jaxlib's newer header adds stands behind.
    assert names == API[: len(names)]
    assert API[len(names) :] == ["PJRT_Device_GetAttributes"]
    assert record("PJRT_Api_Version").size == HEADER_BYTES - 16


def test_element_types_have_the_numbers_of_the_header():
    body = re.search(r"typedef enum \{([^}]*)\} PJRT_Buffer_Type;", header())
    assert body is not None
    names = [name.lower() for name in re.findall(r"PJRT_Buffer_Type_(\w+)", body[1])]
    assert [TYPE_NAMES[number] for number in range(len(names))] == names

# SPDX-License-Identifier: Apache-2.0
"""C-layout records: offsets are a C compiler's, Python and emitted code see the same memory."""

import ctypes

import pytest

from ingot.native.layout import Field, Record
from ingot.runtime.memory.allocator import ALLOCATOR, BLOCK
from ingot.runtime.records import POOL, PROGRAM, PUBLIC_RECORDS, RUNTIME, c_header


def test_fields_are_aligned_as_in_c():
    record = Record("R", Field("a", "i8"), Field("b", "i32"), Field("c", "i8"), Field("d", "ptr"))
    assert [record.offset(name) for name in "abcd"] == [0, 4, 8, 16]
    assert record.size == ctypes.sizeof(record.structure) == 24


def test_own_line_starts_a_cache_line_and_pads_the_record():
    record = Record("R", Field("a", "i32"), Field("b", "i64", own_line=True), Field("c", "i64"))
    assert [record.offset(name) for name in "abc"] == [0, 64, 72]
    assert record.size == 128


@pytest.mark.parametrize(
    "record", [RUNTIME, POOL, ALLOCATOR, BLOCK, PROGRAM], ids=lambda record: record.name
)
def test_ctypes_agrees_on_every_offset(record):
    for name, _ in record.structure._fields_:
        if not name.startswith("_pad"):
            assert getattr(record.structure, name).offset == record.offset(name)
    assert ctypes.sizeof(record.structure) == record.size


def test_programs_find_pool_and_parallel_first():
    assert (RUNTIME.offset("pool"), RUNTIME.offset("parallel")) == (0, 8)


def test_header_declares_the_public_records():
    header = c_header()
    for record in PUBLIC_RECORDS:
        assert f"}} {record.name}; /* {record.size} bytes */" in header
    assert header.count("{") == header.count("}") == len(PUBLIC_RECORDS)

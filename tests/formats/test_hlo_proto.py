# SPDX-License-Identifier: Apache-2.0
"""HLO protos: every op's file to bytes and back, and what real XLA makes of the same bytes."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.formats.hlo_proto import (
    Snapshot,
    parse_hlo_proto,
    parse_snapshot,
    print_hlo_proto,
    print_snapshot,
)
from ingot.formats.hlo_proto.sharding import read_sharding, write_sharding
from ingot.formats.hlo_proto.wire import decode, encode
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.hlo.dtype import DTYPES, Kind
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError, ParseError, UnsupportedError, VerifyError

pytestmark = pytest.mark.fast_share(4)

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "ops").glob("*.hlo")) + sorted((ROOT / "formats/data").rglob("*.hlo"))
# Header attributes that XLA keeps in the configuration, not in the proto.
CONFIGURATION = ("replica_count", "num_partitions", "allow_spmd", "entry_computation_api")


def modules() -> list[tuple[str, Module]]:
    """Return the static modules of the test files."""
    found: list[tuple[str, Module]] = []
    for path in FILES:
        try:
            module = parse_hlo(path.read_text())
        except IngotError:
            continue
        if module.parameter_shapes == () or "[?" not in print_module(module):
            for name in [n for n in module.extra if n.startswith(CONFIGURATION)]:
                del module.extra[name]
            found.append((path.stem, module))
    return found


MODULES = modules()


def difference(one: str, other: str) -> str:
    """Return the lines in which two texts of modules differ, computations in any order."""
    lines = [[line for part in sorted(text.split("\n\n")) for line in part.splitlines()]
             for text in (one, other)]  # fmt: skip
    return "\n".join(difflib.unified_diff(*lines, lineterm="", n=0))


def test_there_is_something_to_test() -> None:
    assert len(MODULES) > 60


@pytest.mark.parametrize(("name", "module"), MODULES, ids=[name for name, _ in MODULES])
def test_round_trip(name: str, module: Module) -> None:
    data = print_hlo_proto(module)
    assert not difference(print_module(module), print_module(parse_hlo_proto(data)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "module"), MODULES, ids=[name for name, _ in MODULES])
def test_real_xla_reads_and_writes_the_same(name: str, module: Module) -> None:
    hlo = pytest.importorskip("jaxlib.xla_client").hlo
    text = print_module(module)
    theirs = hlo.hlo_module_from_text(text)
    if "(nan, inf)" in text:
        pytest.skip("XLA's text parser makes (nan, nan) of (nan, inf)")
    if "async-start" in text:
        pytest.skip("XLA's text does not say how the computation of an async op is called")
    ours = hlo.HloModule.from_serialized_hlo_module_proto(print_hlo_proto(module))
    assert not difference(theirs.to_string(), ours.to_string())
    back = parse_hlo_proto(theirs.as_serialized_hlo_module_proto())
    expected = print_module(parse_hlo(theirs.to_string()))
    assert not difference(expected, print_module(back))


ARRAYS = [row for row in DTYPES.values() if row.storage is not None]


@pytest.mark.parametrize("element", ARRAYS, ids=str)
def test_literals_of_every_element_type(element) -> None:
    values = np.arange(6).reshape(2, 3) % (1 << min(element.bits, 3))
    if element.kind is Kind.SIGNED:
        values = -(values % 2)
    literal = Literal.of(values.astype(element.numpy), element)
    found = parse_snapshot(print_snapshot(Snapshot(MODULES[0][1], (literal,), literal, "cpu")))
    assert found.arguments == (literal,)
    assert found.result == literal
    assert found.platform == "cpu"
    assert print_module(found.module) == print_module(MODULES[0][1])


def test_literals_follow_their_layout() -> None:
    """XLA writes a column-major constant in the order of memory."""
    hlo = pytest.importorskip("jaxlib.xla_client").hlo
    text = "HloModule m ENTRY e { ROOT c = f32[2,2]{0,1} constant({{1,2},{3,4}}) }"
    data = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    root = parse_hlo_proto(data).entry.root
    np.testing.assert_array_equal(root.attributes.literal.value, [[1, 2], [3, 4]])
    again = hlo.HloModule.from_serialized_hlo_module_proto(print_hlo_proto(parse_hlo_proto(data)))
    assert "f32[2,2]{0,1} constant({ { 1, 2 }, { 3, 4 } })" in again.to_string()


def test_what_contains_a_module_is_read() -> None:
    module = MODULES[0][1]
    message = decode(print_hlo_proto(module), "HloModuleProto")
    for kind, content in (
        ("HloProto", {"hlo_module": message}),
        ("HloSnapshot", {"hlo": {"hlo_module": message}}),
        ("HloUnoptimizedSnapshot", {"hlo_module": message, "version": 1}),
    ):
        assert print_module(parse_hlo_proto(encode(content, kind))) == print_module(module)


@pytest.mark.parametrize(
    "text",
    [
        "{replicated}",
        "{manual}",
        "{maximal device=3}",
        "{devices=[2,1]0,1}",
        "{devices=[2,2]<=[4]}",
        "{devices=[2,2]<=[2,2]T(1,0)}",
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}",
        "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}",
        "{{replicated}, {devices=[2]<=[2]}}",
        "{}",
    ],
)
def test_shardings(text: str) -> None:
    assert read_sharding(write_sharding(text)) == text


def test_invalid_shardings_are_refused() -> None:
    with pytest.raises(ParseError, match="no sharding"):
        write_sharding("{devices=2}")


def test_numbers_of_every_size() -> None:
    for number in (0, 1, 127, 128, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)):
        message = {"dimensions": [number, number]} | ({"tuple_index": number} if number else {})
        assert decode(encode(message, "HloInstructionProto"), "HloInstructionProto") == message


def test_unknown_fields_are_skipped_and_unpacked_lists_are_read() -> None:
    # dimensions (14) one by one; a string, a number, and both fixed widths of fields 1000 to 1003.
    data = bytes([14 << 3, 5, 14 << 3, 6])
    for field, wire, content in ((1000, 2, b"\x02ab"), (1001, 0, b"\x07"), (1002, 5, b"abcd"),
                                 (1003, 1, b"abcdefgh")):  # fmt: skip
        tag = field << 3 | wire
        data += bytes([tag & 0x7F | 0x80, tag >> 7]) + content
    assert decode(data, "HloInstructionProto") == {"dimensions": [5, 6]}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises((ParseError, UnsupportedError, VerifyError)):
        parse_hlo_proto(data)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_module_is_read_or_refused(place: int, byte: int) -> None:
    data = bytearray(print_hlo_proto(MODULES[0][1]))
    data[place % len(data)] = byte
    try:
        module = parse_hlo_proto(bytes(data))
    except (ParseError, UnsupportedError, VerifyError):
        return
    # What is read is a whole module: it can be written, and read again.
    written = print_hlo_proto(module)
    assert print_hlo_proto(parse_hlo_proto(written)) == written


def test_symbolic_sizes_are_refused() -> None:
    module = parse_hlo("HloModule m ENTRY e { ROOT x = f32[?n] parameter(0) }")
    with pytest.raises(IngotError, match="symbolic"):
        print_hlo_proto(module)


@pytest.mark.parametrize(
    ("name", "change", "error", "match"),
    [
        (
            "convolution",
            {"convolution_dimension_numbers": {"input_batch_dimension": 9}},
            ParseError,
            r"the dimensions \[9, 0\] of a convolution's input are no order",
        ),
        ("literal", {"literal": {}}, UnsupportedError, "element type 0"),
        (
            "literal",
            {"literal": {"shape": {"element_type": 11, "dimensions": [7]}}},
            ParseError,
            "needs 7 elements, not 0",
        ),
        ("domain", {"sharding": {"type": 99}}, ParseError, "no sharding of the kind 99"),
    ],
)
def test_a_proto_that_contradicts_itself_ends_in_a_diagnostic(
    name: str, change: dict[str, object], error: type[IngotError], match: str
) -> None:
    with pytest.raises(error, match=match):
        parse_hlo_proto(_changed(name, change))


@pytest.mark.parametrize(
    "change",
    [
        {"dimensions": []},
        {"shape": {"element_type": 11, "dimensions": [2], "is_dynamic_dimension": []}},
    ],
)
def test_what_a_proto_may_leave_out_changes_nothing(change: dict[str, object]) -> None:
    found = parse_hlo_proto(_changed("iota", change))
    assert not difference(print_module(found), print_module(parse_hlo(_TEXT)))


_TEXT = """HloModule m ENTRY e { c = f32[2] constant({1, 2})
  i = f32[2] iota(), iota_dimension=0 ROOT r = f32[2] add(c, i) }"""


def _changed(name: str, change: dict[str, object]) -> bytes:
    """Return the proto of `_TEXT` with other fields in its constant ("literal") or its iota."""
    message = decode(print_hlo_proto(parse_hlo(_TEXT)), "HloModuleProto")
    rows = message["computations"][0]["instructions"]
    chosen = "constant" if name == "literal" else "iota"
    (row,) = (row for row in rows if row["opcode"] == chosen)
    row.update(change)
    if name == "convolution":
        row["opcode"] = "convolution"
    return encode(message, "HloModuleProto")

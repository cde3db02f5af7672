# SPDX-License-Identifier: Apache-2.0
"""Protos that contradict themselves are refused where they are read, by what is wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_proto.wire import decode, encode
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.support.diagnostics import ParseError

TEXT = """
HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  c = f32[2,3] constant({{1,2,3},{4,5,6}})
  i = s32[2] constant({1,2})
  t = (f32[], s8[2]) constant((1, {2, 3}))
  k = f32[1,1,2,2] constant({{{{1,2},{3,4}}}})
  v = f32[1,1,1,1] convolution(k, k), window={size=2x2}, dim_labels=bf01_oi01->bf01
  g = f32[2,3] all-reduce(x), replica_groups={{0}}, to_apply=add, channel_id=1
  call = f32[2,3] custom-call(g), custom_call_target="f", schedule=SCHEDULE_LATEST, \
frontend_attributes={a="b"}, sharding={maximal device=0}
  ROOT r = f32[2,3] add(call, c)
}
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
"""
Message = dict[str, Any]


def damaged(change: Callable[[dict[str, Message]], Any]) -> bytes:
    """Return the proto of TEXT after a change; `change` gets the module and its instructions."""
    message = decode(print_hlo_proto(parse_hlo(TEXT)), "HloModuleProto")
    parts = {row["name"]: row for c in message["computations"] for row in c["instructions"]}
    change(parts | {"module": message})
    return encode(message, "HloModuleProto")


def test_the_proto_without_damage_is_read() -> None:
    again = parse_hlo_proto(damaged(lambda parts: None))
    assert "SCHEDULE_LATEST" in print_module(again)


IOTA = {
    "iota_reshape_dims": [1],
    "iota_transpose_perm": [0],
    "num_replica_groups": 1,
    "num_devices_per_group": 1,
}
DAMAGE: dict[str, Callable[[dict[str, Message]], Any]] = {
    r"the sizes \[2, -3\]": lambda p: p["x"]["shape"].update(dimensions=[2, -3]),
    r"layout \[1, 1\] does not order 2": lambda p: p["x"]["shape"]["layout"].update(
        minor_to_major=[1, 1]
    ),
    "of 2 dimensions says of 1": lambda p: p["x"]["shape"].update(is_dynamic_dimension=[True]),
    "needs 6 elements, not 5": lambda p: p["c"]["literal"].update(f32s=[0.0] * 5),
    "needs 9223372036854775807 elements, not 6": lambda p: p["c"]["literal"]["shape"].update(
        dimensions=[(1 << 63) - 1], layout={"minor_to_major": [0]}, is_dynamic_dimension=[]
    ),
    "elements of a literal are not those": lambda p: p["t"]["literal"]["tuple_literals"].pop(),
    "a constant has no literal": lambda p: p["c"].pop("literal"),
    r"a literal cannot be token\[\]": lambda p: p["c"]["literal"].update(
        shape={"element_type": 17}
    ),
    "dimensions .* are no order": lambda p: p["v"]["convolution_dimension_numbers"].update(
        input_batch_dimension=7
    ),
    "dimensions .* of a convolution's kernel": lambda p: p["v"][
        "convolution_dimension_numbers"
    ].update(kernel_spatial_dimensions=[-1, 1]),
    "no operand precision 9": lambda p: p["v"].update(
        precision_config={"operand_precision": [9, 0]}
    ),
    "no operand precision -1": lambda p: p["v"].update(
        precision_config={"operand_precision": [-1, 0]}
    ),
    "no schedule 3": lambda p: p["call"].update(custom_call_schedule=3),
    "no padding type -1": lambda p: p["call"].update(padding_type=-1),
    "no sharding of the kind 9": lambda p: p["call"]["sharding"].update(type=9),
    r"tile dimensions of the kinds \[8\]": lambda p: p["call"].update(
        sharding={"type": 3, "tile_assignment_dimensions": [1], "last_tile_dims": [8]}
    ),
    "frontend attributes have the keys": lambda p: p["call"]["frontend_attributes"]["map"][
        0
    ].update(key="a}"),
    "groups of the devices": lambda p: p["g"].update(
        collective_device_list={"iota_replica_group_list": IOTA | {"num_replica_groups": 2}}
    ),
    r"groups of the devices \[4611686018427387904\]": lambda p: p["g"].update(
        collective_device_list={
            "iota_replica_group_list": IOTA
            | {"iota_reshape_dims": [1 << 62], "num_devices_per_group": 1 << 62}
        }
    ),
    r"in the order \[3\]": lambda p: p["g"].update(
        collective_device_list={"iota_replica_group_list": IOTA | {"iota_transpose_perm": [3]}}
    ),
    "custom_call_api_version has no value 77": lambda p: p["call"].update(
        custom_call_api_version=77
    ),
    "two instructions of e have the id": lambda p: p["c"].update(id=p["x"]["id"]),
    "two computations have the id 1": lambda p: p["module"]["computations"][1].update(id=1),
    "all-reduce does not call 2": lambda p: p["g"].update(called_computation_ids=[1, 1]),
    "is no order of its instructions": lambda p: p["module"].update(
        schedule={"sequences": [{"key": 2, "value": {"instruction_ids": [p["r"]["id"]]}}]}
    ),
    "used before it is there": lambda p: p["r"].update(operand_ids=[1 << 40, p["c"]["id"]]),
    "comparison_direction is 'a, b'": lambda p: p["r"].update(
        opcode="compare", comparison_direction="a, b"
    ),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_damage_is_named(words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse_hlo_proto(damaged(DAMAGE[words]))


def test_numbers_are_cut_to_their_width_as_protobuf_has_it() -> None:
    # source_line (4) of OpMetadata is an int32; 2^32 + 5 is 5.
    data = bytes([4 << 3, 0x85, 0x80, 0x80, 0x80, 0x10])
    assert decode(data, "OpMetadata") == {"source_line": 5}
    # A varint of ten bytes may have bits over 64.
    data = bytes([5 << 3, *[0xFF] * 9, 0x7F])
    assert decode(data, "HloModuleProto") == {"id": -1}


def test_parts_of_a_message_are_joined() -> None:
    rows = [{"hlo_module": {"computations": [{"name": name}]}} for name in "ab"]
    data = b"".join(encode(row, "HloProto") for row in rows)
    found = decode(data, "HloProto")["hlo_module"]["computations"]
    assert [row["name"] for row in found] == ["a", "b"]


def test_text_that_needs_no_quotes_is_whole() -> None:
    """A value in braces that do not match is written in quotes, and so is read back."""
    data = damaged(
        lambda p: p["call"].update(
            backend_config=b"{}}", frontend_attributes={"map": [{"key": "a", "value": '{"}'}]}
        )
    )
    again = parse_hlo(print_module(parse_hlo_proto(data)))
    extra = next(i.extra for i in again.entry.instructions if i.opcode == "custom-call")
    assert extra["backend_config"] == '"{}}"'
    assert extra["frontend_attributes"] == '{a="{\\"}"}'

"""Shardings as protos and device assignments, and the wire format beneath."""

from __future__ import annotations

import pytest

from ingot.client.pjrt.compile_options import read_compile_options, write_device_assignment
from ingot.client.pjrt.extensions import write_sharding
from ingot.client.pjrt.protobuf import integers, read_fields, write_field, write_fields
from ingot.passes.spmd.sharding import parse_sharding
from ingot.support.diagnostics import ParseError


@pytest.mark.parametrize("value", [0, 1, 127, 128, 1 << 40])
def test_integers_come_back(value: int):
    assert read_fields(write_field(3, value)) == {3: [value]}


def test_packed_integers_come_back():
    assert integers(read_fields(write_field(4, [1, 300, 2])), 4) == [1, 300, 2]


def test_broken_messages_are_refused():
    with pytest.raises(ParseError):
        read_fields(b"\x08")


def test_device_assignment_is_partition_major():
    columns = [write_fields([(1, [0, 2])]), write_fields([(1, [1, 3])])]
    assignment = write_fields([(1, 2), (2, 2), (3, columns[0]), (3, columns[1])])
    options = read_compile_options(
        write_fields([(3, write_fields([(4, 2), (5, 2), (9, assignment)]))])
    )
    assert options.devices == (0, 1, 2, 3)
    assert write_device_assignment(options) == assignment


def test_no_options_are_one_device():
    options = read_compile_options(b"")
    assert (options.num_replicas, options.num_partitions, options.devices) == (1, 1, (0,))


def test_sharding_proto_lists_devices_by_part():
    sharding = parse_sharding("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 4)
    assert sharding is not None
    fields = read_fields(write_sharding(sharding))
    assert integers(fields, 3) == [1, 2, 2]
    assert integers(fields, 4) == [0, 2, 1, 3]
    assert fields[6] == [1]

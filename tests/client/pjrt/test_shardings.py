# SPDX-License-Identifier: Apache-2.0
"""Compile options, device assignments and shardings as protos."""

from __future__ import annotations

import pytest

from ingot.client.pjrt.compile_options import read_compile_options, write_device_assignment
from ingot.client.pjrt.errors import PjrtError
from ingot.formats.hlo_proto.sharding import sharding_bytes
from ingot.formats.hlo_proto.wire import Message, decode, encode
from ingot.passes.spmd.sharding import parse_sharding


def options_with(name: str, value: Message) -> bytes:
    return encode({"env_option_overrides": [{"key": name, "value": value}]}, "CompileOptionsProto")


def test_device_assignment_is_partition_major():
    assignment: Message = {
        "replica_count": 2,
        "computation_count": 2,
        "computation_devices": [{"replica_device_ids": [0, 2]}, {"replica_device_ids": [1, 3]}],
    }
    build: Message = {"num_replicas": 2, "num_partitions": 2, "device_assignment": assignment}
    data = encode({"executable_build_options": build}, "CompileOptionsProto")
    options = read_compile_options(data)
    assert options.devices == (0, 1, 2, 3)
    assert decode(write_device_assignment(options), "DeviceAssignmentProto") == assignment


def test_no_options_are_one_device():
    options = read_compile_options(b"")
    assert (options.num_replicas, options.num_partitions, options.devices) == (1, 1, (0,))


def test_options_of_xla_are_accepted():
    given = options_with("xla_cpu_enable_fast_math", {"bool_field": True})
    assert read_compile_options(given).overrides == (("xla_cpu_enable_fast_math", "true"),)
    given = options_with("exec_time_optimization_effort", {"double_field": 0.5})
    assert read_compile_options(given).overrides == (("exec_time_optimization_effort", "0.5"),)


def test_other_options_are_refused():
    with pytest.raises(PjrtError, match="No such compile option: 'speed'"):
        read_compile_options(options_with("speed", {"string_field": "high"}))
    with pytest.raises(PjrtError, match="is not a valid bool value"):
        read_compile_options(options_with("xla_embed_ir_in_executable", {"string_field": "maybe"}))


def test_sharding_proto_lists_devices_by_part():
    sharding = parse_sharding("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 4)
    assert sharding is not None
    assert decode(sharding_bytes(sharding.text()), "OpSharding") == {
        "type": 3,
        "tile_assignment_dimensions": [1, 2, 2],
        "tile_assignment_devices": [0, 2, 1, 3],
        "replicate_on_last_tile_dim": True,
    }

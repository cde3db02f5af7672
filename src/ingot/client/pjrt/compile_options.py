"""What a host wants of a compilation: the fields of CompileOptionsProto that Ingot reads.

Source: xla/pjrt/proto/compile_options.proto (CompileOptionsProto, ExecutableBuildOptionsProto) and
xla/xla_data.proto (DeviceAssignmentProto).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.client.pjrt.protobuf import (
    integer,
    integers,
    message,
    read_fields,
    write_field,
    write_fields,
)

_BUILD_OPTIONS = 3
_DEVICE_ORDINAL, _NUM_REPLICAS, _NUM_PARTITIONS, _DEVICE_ASSIGNMENT = 1, 4, 5, 9
_COMPUTATION_DEVICES, _REPLICA_DEVICE_IDS = 3, 1
_UNSET = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Replicas, partitions, and which devices run them.

    Attributes:
        devices: device ids, replica after replica: `devices[replica * num_partitions + partition]`.
        source: the serialized CompileOptionsProto.
    """

    num_replicas: int
    num_partitions: int
    devices: tuple[int, ...]
    source: bytes

    @property
    def count(self) -> int:
        """Devices that take part in an execution."""
        return self.num_replicas * self.num_partitions


def read_compile_options(data: bytes) -> CompileOptions:
    """Return what a serialized CompileOptionsProto says."""
    build = read_fields(message(read_fields(data), _BUILD_OPTIONS))
    replicas = max(1, integer(build, _NUM_REPLICAS, 1))
    partitions = max(1, integer(build, _NUM_PARTITIONS, 1))
    assignment = read_fields(message(build, _DEVICE_ASSIGNMENT))
    columns = [
        integers(read_fields(column), _REPLICA_DEVICE_IDS)
        for column in assignment.get(_COMPUTATION_DEVICES, [])
        if isinstance(column, bytes)
    ]
    if columns and all(columns):
        devices = tuple(column[replica] for replica in range(replicas) for column in columns)
    else:
        ordinal = integer(build, _DEVICE_ORDINAL, _UNSET)
        first = 0 if ordinal == _UNSET else ordinal
        devices = tuple(range(first, first + replicas * partitions))
    return CompileOptions(replicas, partitions, devices, data)


def write_device_assignment(options: CompileOptions) -> bytes:
    """Return the DeviceAssignmentProto of an executable."""
    columns = (
        options.devices[partition :: options.num_partitions]
        for partition in range(options.num_partitions)
    )
    nested = [write_field(_REPLICA_DEVICE_IDS, column) for column in columns]
    return write_fields(
        [
            (1, options.num_replicas),
            (2, options.num_partitions),
            *((_COMPUTATION_DEVICES, column) for column in nested),
        ]
    )

"""What a host wants of a compilation: the fields of CompileOptionsProto that Ingot reads.

Options by name are XLA's debug options. Those of other backends have no effect here, but a name
that is no option of XLA's at all is an error, as it is there.

Source: xla/pjrt/proto/compile_options.proto, xla/xla_data.proto (DeviceAssignmentProto).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ingot.client.pjrt.errors import INVALID_ARGUMENT, PjrtError
from ingot.formats.hlo_proto.wire import Message, decode, encode

_BOOLEANS = frozenset(
    ("xla_embed_ir_in_executable", "xla_cpu_enable_fast_math", "xla_gpu_deterministic_ops")
)
_EFFORTS = frozenset(
    ("exec_time_optimization_effort", "memory_fitting_effort", "optimization_level")
)
_WORDS = ("true", "false", "1", "0")


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
    """Return what a serialized CompileOptionsProto says.

    Raises:
        PjrtError: an option is unknown, or its value is not one of its type.
    """
    options = decode(data, "CompileOptionsProto")
    for entry in options.get("env_option_overrides", []):
        _check_option(entry.get("key", ""), entry.get("value", {}))
    build = options.get("executable_build_options", {})
    replicas, partitions = (max(1, build.get(f"num_{part}", 1)) for part in _PARTS)
    columns = [
        column.get("replica_device_ids", [])
        for column in build.get("device_assignment", {}).get("computation_devices", [])
    ]
    if columns and all(columns):
        devices = tuple(column[replica] for replica in range(replicas) for column in columns)
    else:
        first = max(0, build.get("device_ordinal", -1))
        devices = tuple(range(first, first + replicas * partitions))
    return CompileOptions(replicas, partitions, devices, data)


_PARTS = ("replicas", "partitions")


def _check_option(name: str, value: Message) -> None:
    if not name.startswith("xla_") and name not in _EFFORTS:
        raise PjrtError(INVALID_ARGUMENT, f"No such compile option: '{name}'")
    given: Any = value.get("string_field", "true")
    if name in _BOOLEANS and given.lower() not in _WORDS:
        raise PjrtError(
            INVALID_ARGUMENT, f"While setting option {name}, '{given}' is not a valid bool value."
        )


def write_device_assignment(options: CompileOptions) -> bytes:
    """Return the DeviceAssignmentProto of an executable."""
    columns = (
        options.devices[partition :: options.num_partitions]
        for partition in range(options.num_partitions)
    )
    message: Message = {
        "replica_count": options.num_replicas,
        "computation_count": options.num_partitions,
        "computation_devices": [{"replica_device_ids": list(column)} for column in columns],
    }
    return encode(message, "DeviceAssignmentProto")

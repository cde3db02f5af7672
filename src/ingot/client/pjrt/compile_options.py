# SPDX-License-Identifier: Apache-2.0
"""The options of a compilation: the fields of CompileOptionsProto that Ingot reads.

Options by name are XLA's debug options. Those that `XLA_FLAGS` may hold too (dumps, passes to leave
out) have their effect on one compilation; the others have none. A name that XLA does not know, or a
value of another type, is an error, as in XLA.

Source: xla/pjrt/proto/compile_options.proto, xla/xla_data.proto (DeviceAssignmentProto).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT
from ingot.client.pjrt.debug_options import DEBUG_OPTIONS
from ingot.client.pjrt.errors import PjrtError
from ingot.formats.hlo_proto.wire import Message, decode, encode
from ingot.support.records import record
from ingot.support.text import did_you_mean

_EFFORTS = frozenset(
    ("exec_time_optimization_effort", "memory_fitting_effort", "optimization_level")
)
_KEPT = 64
"""Parsed options that are cached: hosts pass the same ones with every program."""
_MOST_DEVICES = 1 << 16
_WORDS = ("true", "false", "1", "0")
_FIELDS = ("string_field", "bool_field", "int_field", "double_field")
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,), "int32": (int,), "int64": (int,), "float": (int, float), "string": (),
}  # fmt: skip
"""The types that a value may have, by the option's type; texts are parsed."""


@record
class CompileOptions:
    """Replicas, partitions, and which devices run them.

    Attributes:
        devices: device ids, replica after replica: `devices[replica * num_partitions + partition]`.
        source: the serialized CompileOptionsProto.
        overrides: options by name, as text.
    """

    num_replicas: int
    num_partitions: int
    devices: tuple[int, ...]
    source: bytes
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """Devices that take part in an execution."""
        return self.num_replicas * self.num_partitions


@lru_cache(_KEPT)
def read_compile_options(data: bytes) -> CompileOptions:
    """Return the options of a serialized CompileOptionsProto.

    Raises:
        ParseError: the data is not such a message.
        PjrtError: an option is unknown, its value is not one of its type, or the devices do not
            fit the replicas and partitions.
    """
    options = decode(data, "CompileOptionsProto")
    overrides = tuple(
        (name, _option(name, entry.get("value", {})))
        for entry in options.get("env_option_overrides", [])
        for name in [entry.get("key", "")]
    )
    build = options.get("executable_build_options", {})
    replicas, partitions = (max(1, build.get(f"num_{part}", 1)) for part in _PARTS)
    if replicas * partitions > _MOST_DEVICES:
        raise PjrtError(
            INVALID_ARGUMENT,
            f"{replicas} replicas of {partitions} partitions are more than {_MOST_DEVICES} devices",
        )
    columns = [
        column.get("replica_device_ids", [])
        for column in build.get("device_assignment", {}).get("computation_devices", [])
    ]
    if columns and all(columns):
        devices = _assigned(columns, replicas, partitions)
    else:
        first = max(0, build.get("device_ordinal", -1))
        devices = tuple(range(first, first + replicas * partitions))
    return CompileOptions(replicas, partitions, devices, data, overrides)


_PARTS = ("replicas", "partitions")


def _assigned(columns: list[list[int]], replicas: int, partitions: int) -> tuple[int, ...]:
    """Return the devices of a device assignment: a column for each partition."""
    lengths = sorted({len(column) for column in columns})
    if len(columns) != partitions or lengths != [replicas]:
        raise PjrtError(
            INVALID_ARGUMENT,
            f"the device assignment has {len(columns)} partitions of {lengths} replicas, the "
            f"options say {partitions} of {replicas}",
        )
    devices = tuple(column[replica] for replica in range(replicas) for column in columns)
    if min(devices) < 0:
        raise PjrtError(INVALID_ARGUMENT, f"there is no device {min(devices)}")
    return devices


def _option(name: str, value: Message) -> str:
    """Return the value of an option as text.

    Raises:
        PjrtError: there is no such option, or the value is of another type.
    """
    kind = "other" if name in _EFFORTS else DEBUG_OPTIONS.get(name)
    if kind is None:
        hint = did_you_mean(name, DEBUG_OPTIONS)
        more = f"; {hint}" if hint else ""
        raise PjrtError(INVALID_ARGUMENT, f"No such compile option: '{name}'{more}")
    given: Any = next((value[field] for field in _FIELDS if field in value), "")
    text = str(given).lower() if isinstance(given, bool) else str(given)
    if not _fits(kind, given):
        raise PjrtError(
            INVALID_ARGUMENT, f"While setting option {name}, '{text}' is not a valid {kind} value."
        )
    return text


def _fits(kind: str, given: Any) -> bool:
    if kind == "other":
        return True
    if not isinstance(given, str):
        is_bool = isinstance(given, bool)
        return isinstance(given, _TYPES[kind]) and is_bool == (kind == "bool")
    if kind == "bool":
        return given.lower() in _WORDS
    if kind == "string":
        return True
    try:
        (float if kind == "float" else int)(given)
    except ValueError:
        return False
    return True


@lru_cache(_KEPT)
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

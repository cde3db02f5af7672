# SPDX-License-Identifier: Apache-2.0
"""Python slots of plugin, client, devices and topology."""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, record
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import (
    Attribute,
    Handle,
    NamedValues,
    lookup,
    read_bytes,
    read_named_values,
)
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.objects import CPU, CUDA, Client, Device, Platform, Topology
from ingot.client.pjrt.processes import Processes
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.pjrt.records import EVENT
from ingot.formats.stablehlo.binding import newest_version
from ingot.runtime.cuda.devices import Device as Gpu
from ingot.runtime.cuda.devices import device, device_count
from ingot.runtime.native import allocator_statistics, machine_memory
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.xla_flags import current_xla_flags

_OLDEST_STABLEHLO = (0, 9, 0)
_MAX_DEVICES = 1024
"""Devices of a process, each of which has a thread; a topology has only descriptions."""
_FAILED_PROCESS = 4
"""PJRT_ProcessState_kError."""
_MEMORY_STATISTICS = {
    "peak_bytes_in_use": "peak_bytes",
    "num_allocs": "allocations",
    "pool_bytes": "bytes_cached",
}


class ClientSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, version: str) -> None:
        """Hold the native functions and the version of clients."""
        self.native = native
        self.version = version
        self.clients: list[Client] = []
        self._attributes: NamedValues | None = None
        self._kept: list[object] = []

    @slot("PJRT_Plugin_Attributes")
    def attributes(self, args: Any) -> None:
        """Return the supported versions of StableHLO."""
        values: dict[str, Attribute] = {
            "xla_version": 2,
            "stablehlo_current_version": newest_version(),
            "stablehlo_minimum_version": _OLDEST_STABLEHLO,
        }
        if self._attributes is None:
            self._attributes = NamedValues(values)
        args.attributes, args.num_attributes = self._attributes.address, len(values)

    @slot("PJRT_Client_Create")
    def create(self, args: Any) -> None:
        """Make a client.

        Raises:
            PjrtError: the platform, the number of devices or the processes are wrong
                (INVALID_ARGUMENT).
            UnsupportedError: INGOT0519, there is no MPI that can be used.
            ExecutionError: INGOT0518, another process did not come in time.
        """
        options = read_named_values(args.create_options, args.num_options)
        gpus = _gpus(options)
        count, is_asynchronous = (len(gpus), True) if gpus else _own_devices(options)
        processes = _processes(options, count, args)
        version = f"{self.version} cuda {gpus[0].driver.release}" if gpus else self.version
        client = Client(Platform(version, processes, is_asynchronous, gpus))
        self.clients.append(client)
        args.client = client.address

    @slot(
        "PJRT_Client_Destroy",
        "PJRT_Client_DmaMap",
        "PJRT_Client_DmaUnmap",
        "PJRT_TopologyDescription_Destroy",
    )
    def nothing(self, args: Any) -> None:
        """Do nothing: clients and topologies live as long as the process."""

    @slot("PJRT_Client_UpdateGlobalProcessInfo")
    def process_info(self, args: Any) -> None:
        """End all waiting for a process that has failed, as the host reports."""
        info = record("PJRT_ProcessInfo")
        processes = lookup(args.client, Client).platform.processes
        for index in range(args.num_process_infos):
            row = info.structure.from_address(args.process_infos + index * info.size)
            if row.state == _FAILED_PROCESS:
                processes.lose(row.task_id)

    @slot("PJRT_Client_LookupDevice")
    def lookup_device(self, args: Any) -> None:
        """Return the device with an id.

        Raises:
            PjrtError: there is no such device (INVALID_ARGUMENT).
        """
        args.device = _device(lookup(args.client, Client).devices, args.id)

    @slot("PJRT_Client_LookupAddressableDevice")
    def lookup_addressable_device(self, args: Any) -> None:
        """Return the device of this process with a hardware id, its number in the process.

        Raises:
            PjrtError: there is no such device in this process (INVALID_ARGUMENT).
        """
        devices = lookup(args.client, Client).local_devices
        args.addressable_device = _device(devices, args.local_hardware_id)

    @slot("PJRT_Client_DefaultDeviceAssignment")
    def default_assignment(self, args: Any) -> None:
        """Number devices from 0 on.

        Raises:
            PjrtError: there are fewer devices than replicas times partitions (INVALID_ARGUMENT).
        """
        count = args.num_replicas * args.num_partitions
        known = len(lookup(args.client, Client).devices)
        if count > known:
            raise PjrtError(INVALID_ARGUMENT, f"the program wants {count} devices of {known}")
        array = (ctypes.c_int32 * count).from_address(args.default_assignment)
        array[:] = range(count)

    @slot("PJRT_Device_MemoryStats")
    def memory_stats(self, args: Any) -> None:
        """Return the memory of a device: those of a CPU share the host's, and its allocator.

        The limit of each is its part of the memory that the process may use.
        """
        for name, _ in args._fields_:
            if name.endswith("_is_set"):
                setattr(args, name, 0)
        device = lookup(args.device, Device)
        gpu = device.gpu
        if gpu is not None:
            args.bytes_in_use = gpu.memory - gpu.free_memory()
            _limit(args, gpu.memory)
            return
        found = allocator_statistics()
        args.bytes_in_use = found.bytes_in_use
        for name, source in _MEMORY_STATISTICS.items():
            setattr(args, name, getattr(found, source))
            setattr(args, f"{name}_is_set", 1)
        client = lookup(device.structure.client, Client)
        _limit(args, machine_memory() // len(client.local_devices))

    @slot("PJRT_Device_GetAttributes")
    def device_attributes(self, args: Any) -> None:
        """Return the attributes of a device, which are those of its description."""
        description = lookup(args.device, Device).description.structure
        args.attributes = description.attributes
        args.num_attributes = description.num_attributes
        args.device_attributes = args.device
        args.attributes_deleter = self.native.address("ingot_pjrt_nothing")

    @slot("PJRT_TopologyDescription_Create")
    def topology_create(self, args: Any) -> None:
        """Describe devices, without a client.

        Raises:
            PjrtError: the number of devices is wrong (INVALID_ARGUMENT).
        """
        options = read_named_values(args.create_options, args.num_options)
        count, is_asynchronous = _own_devices(options, MOST_DEVICES)
        processes = Processes(num_devices=(count,))
        args.topology = Topology(Platform(self.version, processes, is_asynchronous)).address

    @slot("PJRT_TopologyDescription_Serialize")
    def topology_serialize(self, args: Any) -> None:
        """Return a topology as bytes: the number of devices of each process."""
        topology = lookup(args.topology, Topology)
        counts = " ".join(map(str, topology.platform.processes.num_devices))
        data = topology.keep_once("serialized", counts.encode)
        args.serialized_bytes, args.serialized_bytes_size = data
        args.serialized_topology = topology.address
        args.serialized_topology_deleter = self.native.address("ingot_pjrt_nothing")

    @slot("PJRT_TopologyDescription_Deserialize")
    def topology_deserialize(self, args: Any) -> None:
        """Make a topology of the bytes of `topology_serialize`.

        Raises:
            PjrtError: the bytes are not the numbers of devices of processes (INVALID_ARGUMENT).
        """
        data = read_bytes(args.serialized_topology, args.serialized_topology_size)
        processes = Processes(num_devices=_read_counts(data))
        args.topology = Topology(Platform(self.version, processes)).address

    @slot("PJRT_ExecuteContext_Create")
    def context_create(self, args: Any) -> None:
        """Make a context of executions, which holds nothing."""
        args.context = Handle(EVENT).address

    @slot("PJRT_ExecuteContext_Destroy")
    def context_destroy(self, args: Any) -> None:
        """Drop a context."""
        lookup(args.context, Handle).forget()


def _limit(args: Any, limit: int) -> None:
    """Set the bytes that a device may use: none is reserved for others."""
    args.bytes_limit = args.bytes_reservable_limit = limit
    args.bytes_limit_is_set = args.bytes_reservable_limit_is_set = 1


def _own_devices(options: dict[str, Attribute], most: int = _MAX_DEVICES) -> tuple[int, bool]:
    """Return the number of devices, `most` at most, and whether long programs are queued."""
    count = options.get("num_devices", current_xla_flags().force_host_platform_device_count)
    if not isinstance(count, int) or not 1 <= count <= most:
        raise PjrtError(INVALID_ARGUMENT, f"num_devices is {count}, not 1 to {most}")
    return count, bool(options.get("asynchronous", True))


def _read_counts(data: bytes) -> tuple[int, ...]:
    """Return the number of devices of each process, from a serialized topology."""
    words = data.split()
    are_numbers = all(word.isdigit() and len(word) <= len(str(MOST_DEVICES)) for word in words)
    counts = tuple(map(int, words)) if are_numbers else ()
    if not counts or 0 in counts or sum(counts) > MOST_DEVICES:
        raise PjrtError(
            INVALID_ARGUMENT,
            "the bytes are no topology: numbers of devices, from 1 on, with a sum of at most "
            f"{MOST_DEVICES} were expected, {data[:40]!r} was given",
        )
    return counts


def _gpus(options: dict[str, Attribute]) -> tuple[Gpu, ...]:
    """Return the GPUs that a client is for; none if it is for the CPU."""
    wanted = options.get("platform", CPU)
    if wanted == CPU:
        return ()
    if wanted != CUDA:
        raise PjrtError(INVALID_ARGUMENT, f"there is no platform {wanted}, only {CPU} and {CUDA}")
    return tuple(device(number) for number in range(device_count()))


def _device(devices: list[Device], number: int) -> int:
    if not 0 <= number < len(devices):
        raise PjrtError(INVALID_ARGUMENT, f"there is no device {number}, only {len(devices)}")
    return devices[number].address


def _processes(options: dict[str, Attribute], num_devices: int, args: Any) -> Processes:
    """Return the processes of a new client, of which `num_devices` devices are of this one."""
    index, count = options.get("node_id", 0), options.get("num_nodes", 1)
    if not isinstance(index, int) or not isinstance(count, int) or not 0 <= index < count:
        raise PjrtError(INVALID_ARGUMENT, f"there is no process {index} of {count}")
    if count == 1:
        return Processes(num_devices=(num_devices,))
    if not args.kv_get_callback or not args.kv_put_callback:
        raise PjrtError(INVALID_ARGUMENT, f"{count} processes need the host's key-value store")
    from ingot.client.pjrt.process_links import join

    return join(index, count, options, num_devices, args)

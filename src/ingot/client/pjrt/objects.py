# SPDX-License-Identifier: Apache-2.0
"""Client, devices, memories and topology: what a host sees of this machine.

Invariant: the objects of a client live as long as the process, because hosts destroy theirs in any
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ingot.client.pjrt.handles import Handle
from ingot.client.pjrt.processes import Processes
from ingot.client.pjrt.records import CLIENT, DESCRIPTION, DEVICE, MEMORY, TOPOLOGY
from ingot.runtime.own_pools import OwnPool

PLATFORM = "cpu"
"""What the devices are; hosts choose lowerings, DLPack and caches by it."""
DEVICE_KIND = "cpu"
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""The kinds of every device, the default one first; as JAX's own CPU backend has them."""


@dataclass(frozen=True, slots=True)
class Platform:
    """How a client calls itself, which devices it has, and whether long programs are queued."""

    version: str
    processes: Processes = field(default_factory=Processes)
    asynchronous: bool = True

    @property
    def num_devices(self) -> int:
        """Devices of all processes."""
        return sum(self.processes.num_devices)


class Memory(Handle):
    """One memory of a device. All kinds are the same physical memory."""

    def __init__(self, number: int, kind_id: int, device: Device) -> None:
        """Describe memory `number` of the client."""
        super().__init__(MEMORY)
        self.kind = MEMORY_KINDS[kind_id]
        self.device = device
        self.set(id=number, kind_id=kind_id)
        self.set_text("kind", self.kind)
        self.set_text("to_string", f"{self.kind.upper()}_{number}")
        self.set_text("debug_string", f"IngotMemory(id={number}, kind={self.kind})")
        self.set_list("devices", [device.address])


class Description(Handle):
    """What a device is, also without a client."""

    def __init__(self, number: int, process: int) -> None:
        """Describe device `number`, which a process has."""
        super().__init__(DESCRIPTION)
        self.process = process
        self.set(id=number, process_index=process)
        self.set_text("device_kind", DEVICE_KIND)
        self.set_text("to_string", f"IngotDevice(id={number})")
        self.set_text("debug_string", f"IngotDevice(id={number})")
        self.set_attributes("attributes", {})


class Device(Handle):
    """One device: a queue of executions, and memories."""

    def __init__(self, number: int, description: Description, processes: Processes) -> None:
        """Describe device `number`; the client adds itself."""
        super().__init__(DEVICE)
        self.number = number
        self.description = description
        first = number * len(MEMORY_KINDS)
        self.memories = [Memory(first + kind, kind, self) for kind in range(len(MEMORY_KINDS))]
        self.is_addressable = description.process == processes.index
        first_there = sum(processes.num_devices[: description.process])
        self.set(id=number, is_addressable=self.is_addressable, description=description.address)
        self.set(local_hardware_id=number - first_there)
        self.set(default_memory=self.memories[0].address)
        self.set_list("memories", [memory.address for memory in self.memories])

    @cached_property
    def pool(self) -> OwnPool:
        """The threads of executions that run on other devices of the process too."""
        return OwnPool()

    def after_fork_in_child(self) -> None:
        """Forget the worker, which fork did not copy, and what it was to do."""
        self.set(lock=0, first=0, last=0, running=0, unfinished=0, started=0)
        self.set(finished=0, waiting=0)


class Topology(Handle):
    """The devices of a platform, as far as compilation needs to know them."""

    def __init__(self, platform: Platform) -> None:
        """Describe `platform.num_devices` devices."""
        super().__init__(TOPOLOGY)
        self.platform = platform
        processes = platform.processes
        self.descriptions = [
            Description(number, processes.process_of(number))
            for number in range(platform.num_devices)
        ]
        self.set_text("platform_name", PLATFORM)
        self.set_text("platform_version", platform.version)
        self.set_list("descriptions", [item.address for item in self.descriptions])
        self.set_attributes("attributes", {})


class Client(Handle):
    """The platform with its devices; a process may make several."""

    def __init__(self, platform: Platform) -> None:
        """Make the devices."""
        super().__init__(CLIENT)
        self.platform = platform
        self.topology = Topology(platform)
        self.devices = [
            Device(number, description, platform.processes)
            for number, description in enumerate(self.topology.descriptions)
        ]
        self.local_devices = [device for device in self.devices if device.is_addressable]
        memories = [memory for device in self.local_devices for memory in device.memories]
        self.set(process_index=platform.processes.index, topology=self.topology.address)
        self.set_text("platform_name", PLATFORM)
        self.set_text("platform_version", platform.version)
        self.set_list("devices", [device.address for device in self.devices])
        self.set_list("local_devices", [device.address for device in self.local_devices])
        self.set_list("memories", [memory.address for memory in memories])
        for device in self.devices:
            device.set(client=self.address)

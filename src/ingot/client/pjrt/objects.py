# SPDX-License-Identifier: Apache-2.0
"""Client, devices, memories and topology: this machine, as a host sees it.

Invariant: the objects of a client live as long as the process, because hosts destroy theirs in any
order.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from ingot.client.pjrt.handles import Attribute, Handle
from ingot.client.pjrt.processes import Processes
from ingot.client.pjrt.records import CLIENT, DESCRIPTION, DEVICE, GPU, MEMORY, TOPOLOGY
from ingot.runtime.cuda.devices import Device as GpuDevice
from ingot.runtime.native import default_num_threads
from ingot.runtime.own_pools import OwnPool
from ingot.support.records import record

CPU, CUDA = "cpu", "cuda"
"""The platform's name, by which hosts choose lowerings, DLPack and caches."""
MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
"""The kinds of a CPU, the default one first; as JAX's own CPU backend has them."""
GPU_MEMORY_KINDS = MEMORY_KINDS[:1]
_PART_PAUSES = 2000
"""Pauses of a worker before it sleeps, some 30 us, if every device has a CPU to itself: programs on
several devices often follow one another, and their parts wait for the one that is woken last.
All-reduce of 1 KB on two devices takes 0.5 of the time; between two processes, whose hosts need the
CPUs too, up to 1.2 (AMD EPYC, 2026-11-28)."""


@record
class Platform:
    """A client's name and devices, and whether long programs are queued.

    Attributes:
        version: the version that clients report.
        processes: the processes that have devices.
        asynchronous: whether long programs are queued.
        gpus: the devices, if they are GPUs; else they are the CPU.
    """

    version: str
    processes: Processes = field(default_factory=Processes)
    asynchronous: bool = True
    gpus: tuple[GpuDevice, ...] = ()

    @property
    def name(self) -> str:
        """What hosts call it."""
        return CUDA if self.gpus else CPU

    @property
    def memory_kinds(self) -> tuple[str, ...]:
        """The kinds of memory of every device, the default one first."""
        return GPU_MEMORY_KINDS if self.gpus else MEMORY_KINDS

    @property
    def num_devices(self) -> int:
        """Devices of all processes."""
        return sum(self.processes.num_devices)


class Memory(Handle):
    """One memory of a device. All kinds of a CPU are the same physical memory."""

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
    """The description of a device, which needs no client."""

    def __init__(self, number: int, process: int, gpu: GpuDevice | None) -> None:
        """Describe device `number`, which a process has; without a GPU it is the CPU."""
        super().__init__(DESCRIPTION)
        self.process = process
        self.set(id=number, process_index=process)
        self.set_text("device_kind", CPU if gpu is None else gpu.name)
        self.set_text("to_string", f"IngotDevice(id={number})")
        self.set_text("debug_string", f"IngotDevice(id={number})")
        attributes: dict[str, Attribute] = {}
        if gpu is not None:
            attributes["compute_capability"] = "{}.{}".format(*gpu.capability)
            attributes["core_count"] = gpu.multiprocessors
        self.set_attributes("attributes", attributes)


class Device(Handle):
    """One device: a queue of executions, and memories."""

    def __init__(self, number: int, description: Description, platform: Platform) -> None:
        """Describe device `number`; the client adds itself."""
        super().__init__(DEVICE)
        processes, kinds = platform.processes, platform.memory_kinds
        self.number = number
        self.description = description
        first = number * len(kinds)
        self.memories = [Memory(first + kind, kind, self) for kind in range(len(kinds))]
        self.is_addressable = description.process == processes.index
        first_there = sum(processes.num_devices[: description.process])
        self.set(id=number, is_addressable=self.is_addressable, description=description.address)
        self.set(local_hardware_id=number - first_there)
        is_alone = len(processes.num_devices) == 1
        if is_alone and 1 < platform.num_devices <= default_num_threads():
            self.set(part_pauses=_PART_PAUSES)
        self.set(default_memory=self.memories[0].address)
        self.set_list("memories", [memory.address for memory in self.memories])
        self.gpu = _gpu(platform, number)
        if self.gpu is not None:
            from ingot.runtime.cuda.library import execute_address

            row = GPU.structure(stream=self.gpu.stream_record, execute=execute_address())
            self.set(gpu=self.keep_records([row]))

    @cached_property
    def pool(self) -> OwnPool:
        """The threads for executions that run on other devices of the process as well."""
        return OwnPool()

    @cached_property
    def courier(self) -> int:
        """The address of its courier, for collectives that run while it computes."""
        from ingot.runtime.foreign.collectives.couriers import new_courier

        return new_courier()

    def after_fork_in_child(self) -> None:
        """Drop the worker, which fork did not copy, and its queue."""
        self.set(lock=0, first=0, last=0, running=0, unfinished=0, started=0)
        self.set(finished=0, waiting=0)


def _gpu(platform: Platform, number: int) -> GpuDevice | None:
    return platform.gpus[number] if platform.gpus else None


class Topology(Handle):
    """The devices of a platform, as far as compilation needs to know them."""

    def __init__(self, platform: Platform) -> None:
        """Describe `platform.num_devices` devices."""
        super().__init__(TOPOLOGY)
        self.platform = platform
        processes = platform.processes
        self.descriptions = [
            Description(number, processes.process_of(number), _gpu(platform, number))
            for number in range(platform.num_devices)
        ]
        self.set_text("platform_name", platform.name)
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
            Device(number, description, platform)
            for number, description in enumerate(self.topology.descriptions)
        ]
        self.local_devices = [device for device in self.devices if device.is_addressable]
        memories = [memory for device in self.local_devices for memory in device.memories]
        self.known_programs: set[int] = set()
        """Digests of programs that this process has compared with those of others."""
        self.set(process_index=platform.processes.index, topology=self.topology.address)
        self.set_text("platform_name", platform.name)
        self.set_text("platform_version", platform.version)
        self.set_list("devices", [device.address for device in self.devices])
        self.set_list("local_devices", [device.address for device in self.local_devices])
        self.set_list("memories", [memory.address for memory in memories])
        for device in self.devices:
            device.set(client=self.address)

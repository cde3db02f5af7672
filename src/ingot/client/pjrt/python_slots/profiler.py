# SPDX-License-Identifier: Apache-2.0
"""The profiler extension: `jax.profiler.trace` shows our kernels by name.

A host creates a profiler, starts and stops it, and collects an XSpace: a plane for each device, a
line for each thread that ran something on it, an event for each kernel, foreign call and loop, with
XLA:CPU's statistics (`hlo_op`, `hlo_module`). Invariant: nothing is recorded unless a profiler is
started.

Source: xla/backends/profiler/plugin/profiler_c_api.h, tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from typing import Any

from ingot.client.pjrt.c_api import FAILED_PRECONDITION
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Handle, lookup
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.profiling.profile import Profile, Profiler
from ingot.client.profiling.timings import Site
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.native.layout import Field, Record
from ingot.runtime.recording import Event

_HANDLE = Record(
    "IngotPjrtProfiler",
    Field("started", "i64"),
    Field("data", "ptr", note="the XSpace of the last recording"),
    Field("data_size", "i64"),
)
_STATISTICS = (
    *("hlo_op", "hlo_module", "hlo_category", "tf_op", "source"),
    *("flops", "bytes_accessed", "kernel_details"),
)
_IDS = {name: number for number, name in enumerate(_STATISTICS, 1)}
_PICOSECONDS = 1000


class HostProfiler(Handle):
    """A profiler that a host has created."""

    def __init__(self) -> None:
        """Do nothing yet."""
        super().__init__(_HANDLE)
        self.profiler = Profiler()
        self.set_text("data", b"")


class ProfilerSlots(Slots):
    """The slots."""

    @slot("PLUGIN_Profiler_Create")
    def create(self, args: Any) -> None:
        """Create a profiler; its options, which choose among tracers of XLA, have no effect."""
        args.profiler = HostProfiler().address

    @slot("PLUGIN_Profiler_Destroy")
    def destroy(self, args: Any) -> None:
        """Destroy a profiler; a recording in progress ends."""
        profiler = lookup(args.profiler, HostProfiler)
        if profiler.structure.started:
            profiler.profiler.stop()
        profiler.forget()

    @slot("PLUGIN_Profiler_Start")
    def start(self, args: Any) -> None:
        """Begin to record."""
        profiler = lookup(args.profiler, HostProfiler)
        profiler.profiler.start()
        profiler.set(started=1)

    @slot("PLUGIN_Profiler_Stop")
    def stop(self, args: Any) -> None:
        """End the recording.

        Raises:
            PjrtError: the profiler was not started (FAILED_PRECONDITION).
        """
        profiler = lookup(args.profiler, HostProfiler)
        if not profiler.structure.started:
            raise PjrtError(FAILED_PRECONDITION, "this profiler was not started")
        profiler.set(started=0)
        profiler.kept.clear()
        profiler.set_text("data", xspace(profiler.profiler.stop()))

    @slot("PLUGIN_Profiler_CollectData")
    def collect(self, args: Any) -> None:
        """Write the data into the host's buffer, or return its address here.

        By the header the first call asks for the size only; jaxlib reads the data after it.
        """
        profiler = lookup(args.profiler, HostProfiler)
        args.buffer_size_in_bytes = profiler.structure.data_size
        if args.buffer:
            ctypes.memmove(args.buffer, profiler.structure.data, profiler.structure.data_size)
        else:
            args.buffer = profiler.structure.data


def xspace(profile: Profile) -> bytes:
    """Return a profile as a serialized XSpace; b"" if nothing ran."""
    devices: defaultdict[tuple[int, int], list[tuple[Site, Event]]] = defaultdict(list)
    for site, event in profile.runs:
        devices[event.device].append((site, event))
    planes = [
        _plane(number, runs, profile.recording.begin)
        for number, (_, runs) in enumerate(sorted(devices.items()))
    ]
    return encode({"planes": planes}, "XSpace")


def _plane(number: int, runs: list[tuple[Site, Event]], begin: int) -> Message:
    """Return the plane of a device; TensorBoard shows names with this prefix unchanged."""
    numbers = {site: index for index, site in enumerate(dict.fromkeys(s for s, _ in runs), 1)}
    lines: defaultdict[int, list[Message]] = defaultdict(list)
    for site, event in sorted(runs, key=lambda run: run[1].start):
        row = {
            "metadata_id": numbers[site],
            "offset_ps": (event.start - begin) * _PICOSECONDS,
            "duration_ps": (event.end - event.start) * _PICOSECONDS,
            "stats": _stats({"hlo_op": site.name, "hlo_module": site.module}),
        }
        lines[event.thread].append(row)
    return {
        "id": number,
        "name": f"/device:CUSTOM:Ingot {number}",
        "lines": [
            {"id": index, "name": f"Kernels {index}", "timestamp_ns": begin, "events": events}
            for index, events in enumerate(lines.values())
        ],
        "event_metadata": [
            {"key": index, "value": _described(index, site)} for site, index in numbers.items()
        ],
        "stat_metadata": [
            {"key": index, "value": {"id": index, "name": name}} for name, index in _IDS.items()
        ],
    }


def _described(index: int, site: Site) -> Message:
    values = {
        "hlo_category": site.kind,
        "tf_op": site.op_name,
        "source": site.source,
        "flops": site.flops,
        "bytes_accessed": site.bytes,
        "kernel_details": " ".join(site.opcodes),
    }
    given = {name: value for name, value in values.items() if value}
    return {"id": index, "name": site.name, "stats": _stats(given)}


def _stats(values: dict[str, Any]) -> list[Message]:
    return [
        {
            "metadata_id": _IDS[name],
            "str_value" if isinstance(value, str) else "uint64_value": value,
        }
        for name, value in values.items()
    ]

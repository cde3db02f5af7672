# SPDX-License-Identifier: Apache-2.0
"""The targets of collectives, and their tables per call site.

All collectives that the runtime does are the native exchange, each with other tables, which are
made of the call's configuration (`semantics.foreign_calls`). `replica-id` and `partition-id` read
the coordinates of the execution's device.
"""

from __future__ import annotations

import ctypes
import json
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported, symbol_of
from ingot.native.module import Translation
from ingot.native.pointers import Array, Struct
from ingot.native.types import i32, i64
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.foreign.collectives import couriers, mpi, sockets
from ingot.runtime.foreign.collectives.combiners import combiner
from ingot.runtime.foreign.collectives.mpi_library import mpi_library
from ingot.runtime.foreign.collectives.records import Site, Transport, explain
from ingot.runtime.foreign.site import linked_site
from ingot.runtime.native import library_imports
from ingot.runtime.records import RUNTIME, CallFrame
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register
from ingot.semantics.device_ranges import groups_of_range
from ingot.semantics.foreign_calls import RUNTIME_COLLECTIVES

_KEPT = 1 << 6
"""Tables of calls that are kept: many calls of a program have the same."""
_FIELDS = {"replica-id": "replica", "partition-id": "partition"}


class DeviceField(Struct, name="IngotDeviceField", notes={"offset": "of a field in IngotRuntime"}):
    """The field of an execution's record that a call site reads."""

    offset: i64


@exported("ingot_device_id")
def device_id(frame: CallFrame, site: DeviceField) -> i32:
    """Write a field of the execution's record as an u32."""
    result = Array[i32].at(frame.results[0])
    assert result is not None
    result[0] = i32(Array[i64].at(frame.runtime + site.offset)[0])
    return 0


@cache
def _library() -> Library:
    module = ModuleBuilder("ingot_collectives")
    natives = (couriers.exchange, couriers.exchange_start, couriers.exchange_done, couriers.leave)
    Translation(module).add(*natives, sockets.swap, sockets.cut, mpi.swap, mpi.cut, device_id)
    return link_object([compile_object(module.text(), TargetSpec.host())], _imports())


def _imports() -> dict[str, int]:
    """Return the addresses of the C library's functions that the module needs."""
    process, names = ctypes.CDLL(None), (*sockets.IMPORTS, *mpi.IMPORTS)
    found = {name: ctypes.cast(getattr(process, name), ctypes.c_void_p) for name in names}
    return library_imports() | {name: each.value or 0 for name, each in found.items()}


def _link_device_id(call: CallSite) -> LinkedCall:
    site = DeviceField.c_layout.structure()
    site.offset = RUNTIME.offset(_FIELDS[call.target])
    return linked_site(_library().address(symbol_of(device_id)), site, str)


def _link_done(call: CallSite) -> LinkedCall:
    return linked_site(
        _library().address("ingot_exchange_done"), Site.c_layout.structure(), explain
    )


def _link_exchange(call: CallSite) -> LinkedCall:
    """Link a collective, or the start of one."""
    opcode = call.target.removesuffix("-start")
    function = "ingot_exchange" if opcode == call.target else "ingot_exchange_start"
    config: dict[str, Any] = json.loads(call.config)
    operand = call.operands[0]
    site = Site.c_layout.structure()
    site.key = (zlib.crc32(call.target.encode()) & 0x7FFFFFFF) << 32 | call.number
    site.devices, site.rank, site.along = config["devices"], operand.rank, config.get("along", 0)
    site.element_bytes = operand.dtype.bytes
    site.is_shared = int(opcode == "all-reduce")
    site.is_reduced = int(opcode == "reduce-scatter" or site.is_shared)
    site.is_split = int(opcode == "all-to-all" or site.is_reduced)
    if site.is_reduced:
        site.combine = combiner(config["opcode"], operand.dtype.name)
    site.kept = _tables_of(call.config)
    for name, block in site.kept.items():
        setattr(site, name, ctypes.addressof(block))
    return linked_site(_library().address(function), site, explain)


@lru_cache(_KEPT)
def _tables_of(text: str) -> dict[str, Any]:
    """Return the tables of a call by its configuration; they are as large as its devices are many.

    The devices of a group share its row.
    """
    config: dict[str, Any] = json.loads(text)
    devices: int = config["devices"]
    parts = [0] * devices
    if "sources" in config:
        listed: list[int] = config["sources"]
        sources = [[one] if one >= 0 else [] for one in listed]
        targets: list[list[int]] = [[] for _ in range(devices)]
        for taker, giver in enumerate(listed):
            if giver >= 0:
                targets[giver].append(taker)
        given, taken = _rows(targets), _rows(sources)
    else:
        groups: Any = config["groups"]
        groups = groups_of_range(groups) if isinstance(groups, str) else groups
        row_of = [0] * devices
        for number, group in enumerate(groups):
            for part, device in enumerate(group):
                row_of[device], parts[device] = number, part
        given = taken = _rows(groups, row_of)
    tables = {
        "targets": given.bounds,
        "given": given.devices,
        "sources": taken.bounds,
        "taken": taken.devices,
        "parts": parts,
    }
    return {name: int64_array(values) for name, values in tables.items()}


class _Rows(NamedTuple):
    """Lists of devices one behind the other, and where that of each device begins and ends."""

    devices: list[int]
    bounds: list[int]


def _rows(rows: Sequence[Sequence[int]], row_of: Sequence[int] | None = None) -> _Rows:
    """Return lists of devices; device d has list number `row_of[d]`, by default its own."""
    ends = list(accumulate(map(len, rows)))
    numbers = range(len(rows)) if row_of is None else row_of
    bounds = [at for n in numbers for at in (ends[n] - len(rows[n]), ends[n])]
    return _Rows([device for row in rows for device in row], bounds)


@cache
def socket_transport() -> Any:
    """Return the record of the transport through sockets; it lives as long as the process."""
    return _transport(sockets.swap, sockets.cut)


@cache
def mpi_transport() -> Any:
    """Return the record of the transport through MPI.

    Raises:
        UnsupportedError: INGOT0519, there is no MPI that can be used.
    """
    return _transport(mpi.swap, mpi.cut, mpi_library().record())


def _transport(swap: Any, cut: Any, state: Any = None) -> Any:
    record = Transport.c_layout.structure()
    record.swap = _library().address(symbol_of(swap))
    record.cut = _library().address(symbol_of(cut))
    # Python's only: it puts this into each rendezvous.
    record.leave = _library().address(symbol_of(couriers.leave))
    if state is not None:
        record.state, record.kept = ctypes.addressof(state), state
    return record


def register_exchanges() -> None:
    """Register these targets."""
    for name in sorted(RUNTIME_COLLECTIVES):
        register(Target(name, link=_link_exchange))
        register(Target(f"{name}-start", link=_link_exchange))
        register(Target(f"{name}-done", link=_link_done))
    for name in _FIELDS:
        register(Target(name, link=_link_device_id))

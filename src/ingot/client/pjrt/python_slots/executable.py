# SPDX-License-Identifier: Apache-2.0
"""Python slots of compilation and executables."""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, UNIMPLEMENTED, record
from ingot.client.pjrt.compile_options import (
    CompileOptions,
    read_compile_options,
    write_device_assignment,
)
from ingot.client.pjrt.errors import ErrorFactory, PjrtError
from ingot.client.pjrt.executables import LoadedExecutable, Source
from ingot.client.pjrt.handles import NamedValues, lookup, read_bytes, read_text
from ingot.client.pjrt.multi_device import MultiDeviceExecutions, give_up
from ingot.client.pjrt.native import Native, on_compile_stack
from ingot.client.pjrt.objects import Client, Topology
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.client.pjrt.records import FAILURE
from ingot.client.pjrt.serialize import read_source, write_source
from ingot.client.pjrt.stored import find_or_compile_source
from ingot.support.forking import ForkLock

_OPTIMIZED_FORMAT = b"hlo_with_config"
_MEMORY_STATISTICS = "PJRT_Executable_GetCompiledMemoryStats"

_ASKS_HOST = "a program with an op that its host partitions (custom_partitioning) is not serialized"
_SHORT_CODE = 32 << 10
"""Bytes of programs that are compiled on the thread of the host: 128 KB of stack are enough for a
third of it, in chains, trees and nests of loops, and to start a thread takes 0.5 ms."""


class ExecutableSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native, errors: ErrorFactory, version: str) -> None:
        """Hold the native functions, the factory of errors and the version."""
        self.native = native
        self.errors = errors
        self.version = version
        self._multi_device = MultiDeviceExecutions(native)
        self._lock = ForkLock()
        self._topology_clients: dict[int, Client] = {}

    @slot("PJRT_Client_Compile")
    def compile(self, args: Any) -> None:
        """Compile for the devices of a client.

        Raises:
            PjrtError: the program is not StableHLO, or the options are wrong (INVALID_ARGUMENT).
            IngotError: Ingot cannot compile the program.
        """
        options = read_bytes(args.compile_options, args.compile_options_size)
        source = self._source(args.program, read_compile_options(options))
        args.executable = self._load(lookup(args.client, Client), source).address

    @slot("PJRT_Compile")
    def compile_for_topology(self, args: Any) -> None:
        """Compile for a topology, which needs no client.

        Raises:
            PjrtError, IngotError: as for `compile`.
        """
        options = read_bytes(args.compile_options, args.compile_options_size)
        source = self._source(args.program, read_compile_options(options))
        topology = lookup(args.topology, Topology)
        with self._lock:
            client = self._topology_clients.get(args.topology)
            if client is None:
                client = self._topology_clients[args.topology] = Client(topology.platform)
        args.executable = self._load(client, source).address

    def _source(self, address: int, options: CompileOptions) -> Source:
        program = record("PJRT_Program").structure.from_address(address)
        kind = read_text(program.format, program.format_size)
        if kind != "mlir":
            raise PjrtError(INVALID_ARGUMENT, f"programs come as 'mlir' (StableHLO), not '{kind}'")
        return Source(read_bytes(program.code, program.code_size), kind, options)

    def _load(self, client: Client, source: Source) -> LoadedExecutable:
        def load() -> LoadedExecutable:
            executable, boundary = find_or_compile_source(client, source)
            return LoadedExecutable(client, source, executable, boundary)

        return load() if len(source.code) <= _SHORT_CODE else on_compile_stack(load)

    def execution_failed(self, address: int) -> int:
        """Return the error of an execution that ended with a status."""
        row: Any = FAILURE.structure.from_address(address)
        try:
            give_up(row.program)
            executable = lookup(row.executable, LoadedExecutable)
            return self.errors.make(executable.error_of(row.status))
        except BaseException as problem:
            return self.errors.make(problem)

    def release(self, address: int) -> int:
        """Drop an executable whose last reference is gone."""
        lookup(address, LoadedExecutable).forget()
        return 0

    def execute_on_devices(self, address: int) -> int:
        """Implement PJRT_LoadedExecutable_Execute on several devices; return null or an error."""
        args: Any = record("PJRT_LoadedExecutable_Execute").structure.from_address(address)
        try:
            executable = lookup(args.executable, LoadedExecutable)
            executable.check_call(args.num_devices, args.num_args)
            # All parts of one execution are queued together: two executions in different order
            # on two devices would wait for each other.
            with self._lock:
                return self._multi_device.execute(executable, args)
        except BaseException as problem:
            return self.errors.make(problem)

    @slot("PJRT_LoadedExecutable_GetDeviceAssignment")
    def device_assignment(self, args: Any) -> None:
        """Return the DeviceAssignmentProto of a program."""
        executable = lookup(args.executable, LoadedExecutable)
        options = executable.source.options
        data = executable.keep_once("assignment", lambda: write_device_assignment(options))
        args.serialized_bytes, args.serialized_bytes_size = data
        args.serialized_device_assignment = executable.address
        args.serialized_device_assignment_deleter = self._nothing

    @property
    def _nothing(self) -> int:
        return self.native.address("ingot_pjrt_nothing")

    @slot("PJRT_Executable_GetCompileOptions")
    def compile_options(self, args: Any) -> None:
        """Return the CompileOptionsProto that a program was compiled with."""
        executable = lookup(args.executable, LoadedExecutable)
        options = executable.source.options
        data = executable.keep_once("options", lambda: options.source)
        args.serialized_bytes, args.serialized_bytes_size = data
        args.serialized_compile_options = executable.address
        args.serialized_compile_options_deleter = self._nothing

    @slot("PJRT_Executable_GetCostAnalysis")
    def cost_analysis(self, args: Any) -> None:
        """Return the costs of one execution of a program."""
        executable = lookup(args.executable, LoadedExecutable)
        costs = executable.cost_properties
        args.properties = executable.once("costs", lambda: NamedValues(costs)).address
        args.num_properties = len(costs)

    @slot("PJRT_Executable_OptimizedProgram")
    def optimized_program(self, args: Any) -> None:
        """Return a program after the passes; called once for the size, once for the bytes.

        Raises:
            PjrtError: the buffer for the program is too small (INVALID_ARGUMENT).
        """
        executable = lookup(args.executable, LoadedExecutable)
        data = executable.optimized_program
        program = record("PJRT_Program").structure.from_address(args.program)
        program.format, program.format_size = self._format, len(_OPTIMIZED_FORMAT)
        if program.code:
            if program.code_size < len(data):
                raise PjrtError(INVALID_ARGUMENT, "the buffer for the program is too small")
            ctypes.memmove(program.code, data, len(data))
        program.code_size = len(data)

    _format_text = ctypes.create_string_buffer(_OPTIMIZED_FORMAT)

    @property
    def _format(self) -> int:
        return ctypes.addressof(self._format_text)

    @slot("PJRT_Executable_GetCompiledMemoryStats")
    def memory_statistics(self, args: Any) -> None:
        """Return the bytes of memory of a program."""
        layout = record(_MEMORY_STATISTICS)
        found = lookup(args.executable, LoadedExecutable).memory_statistics()
        for name, _ in args._fields_[3:]:
            if layout.offset(name) + 8 <= args.struct_size:
                setattr(args, name, found.get(name, 0))

    @slot("PJRT_Executable_Serialize")
    def serialize(self, args: Any) -> None:
        """Return a program as bytes.

        Raises:
            PjrtError: the host partitioned one of its ops itself (UNIMPLEMENTED).
        """
        executable = lookup(args.executable, LoadedExecutable)
        if executable.boundary.asks_host:
            raise PjrtError(UNIMPLEMENTED, _ASKS_HOST)
        source, version = executable.source, self.version
        data = executable.keep_once("serialized", lambda: write_source(source, version))
        args.serialized_bytes, args.serialized_bytes_size = data
        args.serialized_executable = executable.address
        args.serialized_executable_deleter = self._nothing

    @slot("PJRT_Executable_DeserializeAndLoad")
    def deserialize(self, args: Any) -> None:
        """Compile a serialized program.

        Raises:
            PjrtError: the bytes are not of this version of Ingot (INVALID_ARGUMENT).
            IngotError: as for `compile`.
        """
        data = read_bytes(args.serialized_executable, args.serialized_executable_size)
        source = read_source(data, self.version)
        size = args.overridden_serialized_compile_options_size
        if size:
            options = read_bytes(args.overridden_serialized_compile_options, size)
            source = Source(source.code, source.format, read_compile_options(options))
        args.loaded_executable = self._load(lookup(args.client, Client), source).address

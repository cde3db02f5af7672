# SPDX-License-Identifier: Apache-2.0
"""Executables behind PJRT handles: an `ingot.client.Executable` with what hosts read.

Invariant: the record has all that an execution needs (sizes, bytes, donations, outputs), so the
machine code of `native_code.execute` never calls Python; programs of hosts have static sizes only.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.client.executables.executable import Executable
from ingot.client.pjrt.boundary import Boundary
from ingot.client.pjrt.c_api import INVALID_ARGUMENT, TYPE_CODES
from ingot.client.pjrt.compile_options import CompileOptions
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.handles import Handle
from ingot.client.pjrt.layouts import layout_address
from ingot.client.pjrt.native_code.backlog import most_ahead
from ingot.client.pjrt.native_code.transfer import element_bytes
from ingot.client.pjrt.objects import Client, Device
from ingot.client.pjrt.records import (
    ARGUMENT,
    EXECUTABLE,
    IN_TURNS,
    INLINE,
    MULTI_DEVICE,
    OUTPUT,
    PATIENT,
    QUEUED,
    SEPARATE,
)
from ingot.formats.hlo_proto.wire import Message, encode
from ingot.runtime.executor.execute import OUT_OF_MEMORY
from ingot.runtime.foreign.collectives.greetings import NOT_GREETED
from ingot.runtime.foreign.collectives.rendezvous import Network
from ingot.runtime.foreign.errors import take_error
from ingot.runtime.native import native_runtime
from ingot.runtime.programs.execution import largest_note, status_error
from ingot.runtime.programs.program import Program
from ingot.semantics import custom_calls
from ingot.semantics.call_layouts import logical_dims
from ingot.semantics.custom_calls import CallSite
from ingot.semantics.foreign_calls import is_exchange, is_runtime_target
from ingot.support.diagnostics import ExecutionError, IngotError, ResourceError, UnsupportedError
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.client.executables.gpu_executable import GpuExecutable
    from ingot.runtime.cuda.program import CudaProgram

_INLINE_WORK = 1 << 20
"""Programs that read, write and compute less than this (bytes, and operations by the byte) run in
the call: waking a worker takes about as long."""
_CALL_WORK = 32
"""Assumed operations of a custom call on each byte: decompositions of matrices are slow."""


@record
class Source:
    """What an executable was compiled from.

    Attributes:
        code: the program as the host gave it.
        format: its PJRT format, "mlir".
        options: replicas, partitions, devices.
    """

    code: bytes
    format: str
    options: CompileOptions

    def meaning(self, version: str) -> bytes:
        """Return what says program, options and compiler."""
        # The parsed options, since protobuf writes maps in any order.
        options = self.options
        meaning = (version, options.num_replicas, options.num_partitions, options.devices,
                   options.overrides)  # fmt: skip
        return repr(meaning).encode() + self.code

    def fingerprint(self, version: str) -> str:
        """Return a name of program, options and compiler."""
        return hashlib.sha256(self.meaning(version)).hexdigest()


class LoadedExecutable(Handle):
    """A compiled program on the devices of a client."""

    def __init__(
        self,
        client: Client,
        source: Source,
        executable: Executable | GpuExecutable,
        boundary: Boundary,
    ) -> None:
        """Fill the record of `executable`, compiled from `source`."""
        super().__init__(EXECUTABLE)
        self.client = client
        self.source = source
        self.executable = executable
        self.boundary = boundary
        self.devices = _devices(client, source.options)
        """All devices that run the program, of any process."""
        self.idle_executions: list[Any] = []
        """Records of finished executions on several devices, for later ones (`multi_device`)."""
        self.turns: object = None
        """The owner of `parts`."""
        local = [device for device in self.devices if device.is_addressable]
        self._programs = [self._program_on(device) for device in local]
        """The program that each of this process's devices runs."""
        info, mode = executable.artifact.info, self._mode()
        self.set(
            references=1,
            program=(self._programs or [executable.program])[0].record_address,
            sizes=self._sizes(info),
            num_replicas=source.options.num_replicas,
            num_partitions=source.options.num_partitions,
            code_bytes=executable.artifact.code_bytes,
            mode=mode,
            is_short=int(mode == IN_TURNS and not self._is_long(len(self.devices))),
            default_device=(local or client.local_devices)[0].address,
        )
        self._set_arguments(info)
        self._set_outputs(info)
        self.set_list("devices", [device.address for device in local])
        self.set_text("name", executable.facts.name)
        self.set_text("fingerprint", source.fingerprint(client.platform.version))

    def _program_on(self, device: Device) -> Program | CudaProgram:
        """Return the program that is loaded on a device."""
        found = self.executable
        return found.program if isinstance(found, Executable) else found.on(device.gpu)

    def program_address(self, device: Device) -> int:
        """Return the address of the record of the program that a device of this process runs."""
        local = [each for each in self.devices if each.is_addressable]
        return self._programs[local.index(device)].record_address

    def check_call(self, num_devices: int, num_arguments: int) -> None:
        """Raise PjrtError if an execution has another number of devices or arguments."""
        wanted = (self.structure.num_devices, len(self.executable.artifact.info.params))
        # A process that runs no part of the program passes no arguments.
        if (num_devices, num_arguments if num_devices else wanted[1]) != wanted:
            raise PjrtError(
                INVALID_ARGUMENT,
                f"the program runs on {wanted[0]} devices with {wanted[1]} arguments, not on "
                f"{num_devices} with {num_arguments}",
            )

    @cached_property
    def network(self) -> Network:
        """How the devices reach each other.

        Raises:
            ExecutionError: INGOT0518, another process cannot be reached.
        """
        numbers = [device.number for device in self.devices]
        return self.client.platform.processes.network(numbers)

    @cached_property
    def exchanges(self) -> bool:
        """Whether devices of other processes take part: it runs on them, and has collectives."""
        calls = self.executable.artifact.calls
        return self.network.is_remote and any(is_exchange(call.target) for call in calls)

    @cached_property
    def digest(self) -> int:
        """A digest of program and devices: processes with different ones get an error.

        It depends on no CPU, so that processes on different ones have the same.
        """
        options = self.source.options
        meaning = (self.boundary.program, options.num_replicas, options.devices)
        digest = hashlib.sha256(repr(meaning).encode()).digest()
        return int.from_bytes(digest[:8], "little", signed=True)

    @cached_property
    def optimized_program(self) -> bytes:
        """The program after all passes, as HloModuleProtoWithConfig."""
        from ingot.formats.hlo_proto.writer import write_module

        module = write_module(self.executable.module)
        # XLA's schedules name every computation, also reducers; ours only those that run in order.
        module.pop("schedule", None)
        config: Message = {
            "entry_computation_layout": module["host_program_shape"],
            "replica_count": self.source.options.num_replicas,
            "num_partitions": self.source.options.num_partitions,
        }
        return encode({"hlo_module": module, "config": config}, "HloModuleProtoWithConfig")

    @cached_property
    def cost_properties(self) -> dict[str, float]:
        """The work of one execution, by XLA's names."""
        return self.executable.cost_analysis()

    def _mode(self) -> int:
        calls, count = self.executable.artifact.calls, len(self.devices)
        is_here = all(device.is_addressable for device in self.devices)
        if count > 1 or not is_here:
            only_meets = all(is_runtime_target(call.target) for call in calls)
            if not is_here or not isinstance(self.executable, Executable) or not only_meets:
                return MULTI_DEVICE
            return IN_TURNS if calls or self._is_long(count) else SEPARATE
        if any(_calls_host(call.target) for call in calls):
            # A callback may run programs itself, for which this device's queue must be free.
            return PATIENT
        if not isinstance(self.executable, Executable):
            return INLINE  # It only enqueues.
        return QUEUED if self._is_long(1) and self.client.platform.asynchronous else INLINE

    def _is_long(self, times: int) -> bool:
        """Whether this number of runs takes longer than waking a worker."""
        cost = self.cost_properties
        work = cost["flops"] / 8 + cost["bytes accessed"]
        work += sum(map(_call_work, self.executable.artifact.calls))
        return times * work > _INLINE_WORK or self.executable.artifact.has_loop

    def _sizes(self, info: ProgramInfo) -> int:
        """Compute the sizes of the program, which has no symbolic ones; return their address."""
        dims = [self.keep_words(_dims(param)) for param in info.params]
        sizes = self.keep_words([0] * info.num_sizes)
        program = self.executable.program.record_address
        status = _prepare()(program, self.keep_words(dims), sizes)
        assert status == 0, "a program without symbolic sizes has no constraints"
        return sizes

    def _set_arguments(self, info: ProgramInfo) -> None:
        donated = self.boundary.donated
        rows = [
            ARGUMENT.structure(
                bytes=_bytes(param),
                type=TYPE_CODES[param.dtype],
                donated=index in donated,
                layout=layout_address(order),
            )
            for index, (param, order) in enumerate(
                zip(info.params, self.boundary.parameter_layouts, strict=True)
            )
        ]
        self.set(
            num_arguments=len(rows),
            arguments=self.keep_records(rows),
            donates=int(bool(donated)),
        )

    def _set_outputs(self, info: ProgramInfo) -> None:
        outputs = info.outputs
        known = self.client.platform.memory_kinds
        kinds = self.boundary.memory_kinds or known[:1] * len(outputs)
        orders = self.boundary.result_layouts
        dims = [
            logical_dims(_dims(output), order)
            for output, order in zip(outputs, orders, strict=True)
        ]
        rows = [
            OUTPUT.structure(
                memory_index=_memory_index(kind, known),
                dims=self.keep_words(dims[index]),
                rank=len(output.dims),
                bytes=_bytes(output),
                type=TYPE_CODES[output.dtype],
                alias=-1 if output.alias_param is None else output.alias_param,
                layout=layout_address(orders[index]),
            )
            for index, (output, kind) in enumerate(zip(outputs, kinds, strict=False))
        ]
        self.set(
            num_outputs=len(outputs),
            most_ahead=most_ahead(sum(map(_bytes, outputs))),
            outputs=self.keep_records(rows),
            output_types=self.keep_words([TYPE_CODES[output.dtype] for output in outputs], "i"),
            output_dims=self.keep_words([size for row in dims for size in row]),
            output_ranks=self.keep_words([len(output.dims) for output in outputs]),
            memory_kinds=self.keep_words([self.keep_bytes(kind.encode()) for kind in kinds]),
            memory_kind_sizes=self.keep_words([len(kind) for kind in kinds]),
        )

    def error_of(self, status: int) -> IngotError:
        """Return the error of an execution that ended with a status."""
        if status == OUT_OF_MEMORY:
            return self.out_of_memory()
        if status == NOT_GREETED:
            failure = take_error()
            reason = failure.message if failure else "the programs of the processes differ"
            return ExecutionError(f"'{self.executable.facts.name}': {reason}", code="INGOT0505")
        if not isinstance(self.executable, Executable):
            return self.executable.program.error_of(status)
        return status_error(self.executable.artifact.info, status, ())

    def out_of_memory(self) -> ResourceError:
        """Return the error of an execution that got no memory, with the bytes that it needs."""
        found = self.memory_statistics()
        results = found["output_size_in_bytes"] - found["alias_size_in_bytes"]
        return ResourceError(
            f"out of memory while running '{self.executable.facts.name}': its results take "
            f"{results} bytes, and its temporaries {found['temp_size_in_bytes']}",
            code="INGOT0401",
            notes=(
                f"its arguments are {found['argument_size_in_bytes']} bytes",
                *largest_note(self.executable.artifact.info),
            ),
            hint="use smaller sizes, or donate arguments that are not used any more",
        )

    def memory_statistics(self) -> dict[str, int]:
        """Return the bytes of code, arguments, outputs, aliases and temporaries."""
        return asdict(self.executable.memory_analysis())


@cache
def _prepare() -> Callable[..., int]:
    """Return the runtime's function that computes a program's sizes."""
    pointer = ctypes.c_void_p
    return native_runtime().function("ingot_prepare", ctypes.c_int32, pointer, pointer, pointer)


def _devices(client: Client, options: CompileOptions) -> list[Device]:
    """Return the devices of a device assignment, replica after replica."""
    known = len(client.devices)
    strange = [number for number in options.devices if number >= known]
    if strange:
        raise UnsupportedError(
            f"the program wants device {strange[0]}, but there are {known}",
            hint="set jax_num_cpu_devices, or --xla_force_host_platform_device_count in XLA_FLAGS",
        )
    return [client.devices[number] for number in options.devices]


def is_of_one_process(client: Client, options: CompileOptions) -> bool:
    """Whether this process has all devices that run a program."""
    return all(device.is_addressable for device in _devices(client, options))


def device_of(client: Client, options: CompileOptions) -> str:
    """Return `ingot.compile`'s name of the device that a program is for."""
    gpu = _devices(client, options)[0].gpu
    return "cpu" if gpu is None else f"gpu:{gpu.number}"


def _memory_index(kind: str, known: tuple[str, ...]) -> int:
    """Return which of a device's memories has a kind; UnsupportedError if none has."""
    if kind not in known:
        raise UnsupportedError(
            f"a result is wanted in memory '{kind}', which the devices do not have",
            hint=f"they have {', '.join(known)}",
        )
    return known.index(kind)


def _dims(row: ParamInfo | OutputInfo) -> list[int]:
    """Return the dims of a row; UnsupportedError if one is symbolic."""
    sizes = [size for size in row.dims if size is not None]
    if len(sizes) != len(row.dims):
        raise UnsupportedError(
            f"'{row.name or 'a result'}' has a size that is known only when the program runs",
            hint="compile it with ingot.compile, or export it with static shapes",
        )
    return sizes


def _bytes(row: ParamInfo | OutputInfo) -> int:
    return math.prod(_dims(row)) * element_bytes(row.dtype)


def _calls_host(target: str) -> bool:
    found = custom_calls.find(target)
    return found is None or found.calls_host


def _call_work(call: CallSite) -> int:
    """Return the work of a call: a collective's is the bytes of its operands and results."""
    shapes = [shape for shape in (*call.operands, *call.results) if shape.is_array]
    size = sum(math.prod(map(_static, shape.dims)) * shape.dtype.bytes for shape in shapes)
    return size if is_runtime_target(call.target) else size * _CALL_WORK


def _static(size: object) -> int:
    return size if isinstance(size, int) else 0

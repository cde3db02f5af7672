# SPDX-License-Identifier: Apache-2.0
"""The objects of the PJRT C API as C structs: the layout behind each handle.

A handle (`PJRT_Buffer*`, `PJRT_Device*`, ...) is the address of one of these. Python fills those
of the client, its devices and executables, through the layouts at the end; native functions make
and free errors, events, storages, buffers and jobs. Invariant: each holder of a handle has one
reference; `references` counts them, and dropping the last one frees the struct.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i8, i32, i64
from ingot.runtime.cuda.records import CudaStream
from ingot.runtime.foreign.collectives.records import Rendezvous
from ingot.runtime.records import Buffers, Pool, Program, Runtime

GONE = 1 << 62
"""In `Buffer.users`: no new use of the storage may begin; the last user frees it."""

STAYS = -GONE
"""In `Buffer.uses`: its data has left unaligned memory, or must not."""

STORAGE_HEADER_BYTES = 64
"""Bytes from a storage to our own memory of it, which is so 64-byte aligned."""

INLINE = 0
"""Runs in the call of Execute."""
QUEUED = 1
"""Runs on the device's worker, unless the host only waits for it (`native_code.inline`)."""
MULTI_DEVICE = 2
"""Runs on several devices at once; Python gives each worker its part."""
PATIENT = 3
"""Waits in the call for its arguments, then runs there: it may call back into the host."""
SEPARATE = 4
"""Runs on several devices of this process, one after the other in the call: its parts are short,
and do not meet."""
IN_TURNS = 5
"""As MULTI_DEVICE, of this process alone, but the parts take turns in the call if they are short or
the host only waits for them (`native_code.turns`)."""
ONLY_PART = 6
"""How a part of MULTI_DEVICE is launched that is the only one of this process: on the device's
worker, unless the host only waits for it."""


class Counted(Struct):
    """An object that counts its references, in its first field."""

    references: Atomic[i64]


class Error(Counted, name="IngotPjrtError"):
    """PJRT_Error."""

    code: i32  # PJRT_Error_Code
    message: Pointer  # lies after the struct unless the error is a constant
    message_size: i64


class Event(Counted, name="IngotPjrtEvent"):
    """PJRT_Event: something that happens once."""

    done: Atomic[i32]  # 1 once it has happened; waiters sleep on it
    lock: Atomic[i32]
    error: Error | None  # why it failed; set before `done`
    waiters: Waiter | None  # a list, last one first
    late: i32  # 1: a later call of the host decides when; see `native_code.queue`


class Waiter(Struct, name="IngotPjrtWaiter"):
    """A callback that waits for an event."""

    next: Waiter | None
    callback: Callable[[Error | None, Pointer | None], None]
    user_arg: Pointer | None


class Gpu(Struct, name="IngotPjrtGpu"):
    """A GPU behind a device: the stream of its executions, and the function that enqueues them."""

    stream: CudaStream
    execute: Callable[[Program, Runtime, Buffers, Buffers, Array[i64]], i32]


class Storage(Counted, name="IngotPjrtStorage"):
    """Memory, with the event after which its data is computed."""

    data: Pointer
    bytes: i64
    event: Event | None  # null: the data is computed
    external: Atomic[i64]  # references by host views, which forbid donation
    release: Callable[[Pointer, Pointer | None], None] | None  # for memory that is not ours
    context: Pointer | None
    gpu: Gpu | None  # whose memory `data` is in; null: the host's


class Buffer(Struct, name="IngotPjrtBuffer"):
    """PJRT_Buffer: a typed array on a device."""

    storage: Atomic[Storage | None]  # null once deleted or donated, and not in use any more
    users: Atomic[i64]  # calls that use the storage now, and GONE once it is deleted
    dims: Array[i64]  # after the struct
    bytes: i64
    type: i32  # PJRT_Buffer_Type
    deleted: i8
    mark_donated: i8  # whether the execution that set `mark` donates it
    rank: i64
    device: Device
    memory: Memory
    held: Storage | None  # storage that host views of this buffer use
    views: Atomic[i64]  # host views of this buffer
    mark: i64  # number of the last execution with donations that took it
    layout: Layout | None  # null: row-major
    uses: Atomic[i64]  # 1 + executions that read unaligned host memory, STAYS, or 0: aligned
    unaligned: Storage | None  # that memory, if it was in use when the buffer left it


class Layout(Struct, name="IngotPjrtLayout"):
    """PJRT_Layouts_MemoryLayout: its text, as XLA writes it. Equal layouts are one struct."""

    text: Pointer
    text_size: i64


class Client(Struct, name="IngotPjrtClient"):
    """PJRT_Client."""

    platform_name: Pointer
    platform_name_size: i64
    platform_version: Pointer
    platform_version_size: i64
    process_index: i32
    topology: Topology
    devices: Array[Device]
    num_devices: i64
    local_devices: Array[Device]  # those of this process
    num_local_devices: i64
    memories: Array[Memory]  # of these
    num_memories: i64


class Topology(Struct, name="IngotPjrtTopology"):
    """PJRT_TopologyDescription."""

    platform_name: Pointer
    platform_name_size: i64
    platform_version: Pointer
    platform_version_size: i64
    descriptions: Array[Description]
    num_descriptions: i64
    attributes: Pointer
    num_attributes: i64


class Description(Struct, name="IngotPjrtDeviceDescription"):
    """PJRT_DeviceDescription."""

    id: i32
    process_index: i32
    device_kind: Pointer
    device_kind_size: i64
    to_string: Pointer
    to_string_size: i64
    debug_string: Pointer
    debug_string_size: i64
    attributes: Pointer
    num_attributes: i64


class Device(Struct, name="IngotPjrtDevice", own_line=("lock", "launches")):
    """PJRT_Device, with the queue of its worker."""

    id: i32
    is_addressable: i8  # whether this process has it
    local_hardware_id: i32  # its number in its process
    description: Description
    client: Client
    default_memory: Memory
    memories: Array[Memory]
    num_memories: i64
    lock: Atomic[i32]  # of the queue
    queued: Atomic[i32]  # jobs put into the queue so far; the worker sleeps on it
    first: Job | None  # oldest of the queue
    last: Job | None
    running: Job | None  # what the worker runs now
    unfinished: Atomic[i64]  # jobs in the queue or running
    finished: Atomic[i32]  # jobs done so far; hosts with a long backlog sleep on it
    waiting: Atomic[i32]  # hosts that sleep there
    started: i32  # 1 once the worker exists
    part_pauses: i64  # of the worker before it sleeps, after a job that is a part
    launches: i64  # executions so far
    waited_mask: i64  # bit k: the host waited at once for the k-th last execution
    deadline: i64  # cycle until which a request for a result counts as at once
    gpu: Gpu | None  # null: the CPU


class Memory(Struct, name="IngotPjrtMemory"):
    """PJRT_Memory."""

    id: i32
    kind_id: i32
    kind: Pointer
    kind_size: i64
    to_string: Pointer
    to_string_size: i64
    debug_string: Pointer
    debug_string_size: i64
    devices: Array[Device]
    num_devices: i64


class Output(Struct, name="IngotPjrtOutput"):
    """An output of an executable."""

    dims: Array[i64]
    rank: i64
    bytes: i64
    type: i32
    memory_index: i32  # which of the device's memories it lies in
    alias: i64  # argument whose memory it takes if that is donated, or -1
    layout: Layout | None  # null: row-major


class Argument(Struct, name="IngotPjrtArgument"):
    """An argument of an executable."""

    bytes: i64
    type: i32
    donated: i8
    layout: Layout | None  # null: row-major


class Executable(Counted, name="IngotPjrtExecutable"):
    """PJRT_Executable and PJRT_LoadedExecutable."""

    program: Program
    sizes: Array[i64]  # what `ingot_prepare` computed once
    num_arguments: i64
    arguments: Structs[Argument]
    num_outputs: i64
    outputs: Structs[Output]
    default_device: Device
    donates: i8  # whether any argument may be donated
    deleted: i8
    is_short: i8  # whether waking a worker takes as long as the program
    most_ahead: i64  # jobs of a device from which a host that executes it waits
    mode: i32  # INLINE, QUEUED, MULTI_DEVICE, PATIENT, SEPARATE or IN_TURNS
    last_launch: i64  # its last execution, by the device's `launches`
    streak: i64  # consecutive executions for which the host waited at once
    num_replicas: i64
    num_partitions: i64
    code_bytes: i64
    name: Pointer
    name_size: i64
    fingerprint: Pointer
    fingerprint_size: i64
    devices: Array[Device]  # those of this process that run it
    num_devices: i64
    parts: Structs[Part] | None  # of executions IN_TURNS, one per device; null: not made
    output_types: Array[i32]
    output_dims: Array[i64]  # of all outputs one after the other
    output_ranks: Array[i64]
    memory_kinds: Pointer  # const char*[num_outputs]
    memory_kind_sizes: Array[i64]


class Part(Struct, name="IngotPjrtPart"):
    """What a device of an execution on several has of its own."""

    program: Program  # a copy, with a runtime record of its own
    settings: Runtime  # the process's present ones, to be copied there for each execution
    replica: i64
    partition: i64
    rendezvous: Rendezvous
    pool: Pool  # of the device


class Job(Struct, name="IngotPjrtJob"):
    """An execution, or a copy, that waits in a device's queue."""

    next: Job | None
    device: Device  # whose queue it is for
    is_part: i32  # 1: a part of an execution on several devices, of a program that has a rendezvous
    deferred: i32  # 1: it waits outside of the queue, and holds its inputs
    launch_id: i32  # the host's number of the execution
    executable: Executable | None  # null: copy `bytes` from the only input to `target`
    program: Program | None  # what to run; its runtime may be this execution's own
    event: Event  # set when it is done
    num_inputs: i64
    inputs: Array[Storage]  # after the struct
    input_events: Array[Event | None]  # the inputs' events when the job was made
    num_outputs: i64
    outputs: Array[Storage]
    target: Pointer | None
    offset: i64
    bytes: i64


class Failure(Struct, name="IngotPjrtFailure"):
    """The data about a failed execution that Python gets."""

    executable: Executable
    program: Pointer
    status: i32


ERROR, EVENT, STORAGE, BUFFER = Error.c_layout, Event.c_layout, Storage.c_layout, Buffer.c_layout
CLIENT, TOPOLOGY, DESCRIPTION = Client.c_layout, Topology.c_layout, Description.c_layout
DEVICE, MEMORY, EXECUTABLE = Device.c_layout, Memory.c_layout, Executable.c_layout
OUTPUT, ARGUMENT, FAILURE = Output.c_layout, Argument.c_layout, Failure.c_layout
LAYOUT, PART = Layout.c_layout, Part.c_layout
GPU = Gpu.c_layout

# SPDX-License-Identifier: Apache-2.0
"""The records of the runtime: the layout of memory that native code shares.

They are declared once for all users: native functions of the runtime, of TensorFlow's kernel and of
the PJRT client, Python, and other native code, which gets C declarations from `c_header`.
Invariant: `Runtime` begins with `artifact.abi.RUNTIME_FIELDS`, as compiled programs expect.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i32, i64

Dims = Array[Array[i64]]
"""The dimensions of each parameter."""

Buffers = Array[Pointer | None]
"""The memory of each parameter, or of each output."""

ChunkFunction = Callable[[Pointer | None, i64], None]
"""`void(ptr env, i64 chunk)`."""


class Pool(
    Struct,
    name="IngotPool",
    own_line=("state", "function", "done", "sleepers", "lock", "num_threads"),
    notes={
        "state": "epoch:32 | end:16 | first:16; the tickets that are left",
        "function": "void(ptr env, i64 chunk) of this epoch",
        "chunks": "chunks of this epoch",
        "grain": "chunks per ticket; 1 unless chunks do not fit in 16 bits",
        "done": "tickets finished in this epoch",
        "sleepers": "workers that sleep or are about to",
        "lock": "1 while a caller owns the pool",
        "num_threads": "threads wanted, the caller included",
        "started": "workers that exist",
        "next_worker": "number the next worker gives itself",
        "spin": "ns that a worker lets others run before it sleeps",
    },
):
    """The thread pool; `ingot.runtime.threading.pool` runs it."""

    state: Atomic[i64]
    function: Atomic[ChunkFunction]
    env: Atomic[Pointer | None]
    chunks: Atomic[i64]
    grain: Atomic[i64]
    done: Atomic[i64]
    sleepers: Atomic[i32]
    lock: Atomic[i32]
    num_threads: Atomic[i64]
    started: Atomic[i64]
    next_worker: Atomic[i64]
    spin: i64


class Runtime(
    Struct,
    name="IngotRuntime",
    notes={
        "pool": "the thread pool, first argument of `parallel`",
        "parallel": "void(ptr pool, ptr fn, ptr env, i64 nchunks)",
        "profile": "`ingot_profile` while a profiler is on, else null",
        "attention": "int64_t: advanced when executions must poll",
        "poll": "i32(ptr runtime, i64 first): not 0 if the execution must end",
        "cancelled": "1: executions with this record end",
        "deadline": "when they end, in ns of CLOCK_MONOTONIC; 0: never",
        "num_threads": "threads that take part, the caller included",
        "allocate": "ptr(i64 bytes), 64-byte aligned, null if there is no memory",
        "free": "void(ptr), null is allowed",
        "replica": "replica-id of this execution",
        "partition": "partition-id of this execution",
        "rendezvous": "where the devices of this execution meet; null: it is alone",
        "device": "the GPU's stream of this execution; null on the CPU",
        "stages": "the functions of the device that programs of stages call",
    },
):
    """The context of an execution, which may have a copy of its own."""

    pool: Pool
    parallel: Callable[[Pool, ChunkFunction, Pointer | None, i64], None]
    profile: ProfileFunction | None
    attention: Pointer
    poll: Callable[[Runtime, i64], i32]
    cancelled: Atomic[i64]
    deadline: i64
    num_threads: i64
    allocate: Callable[[i64], Pointer | None]
    free: Callable[[Pointer | None], None]
    abi_version: i64
    replica: i64
    partition: i64
    rendezvous: Pointer | None
    device: Pointer
    stages: StageFunctions


class Meeting(
    Struct,
    name="IngotMeeting",
    notes={"leave": "an execution failed: end what it has begun with other devices; may be null"},
):
    """What an execution knows of its rendezvous."""

    leave: Callable[[Runtime], None] | None


class CallFrame(Struct, name="IngotCallFrame"):
    """The frame of a foreign call: `artifact.abi.FRAME_FIELDS`."""

    runtime: Runtime
    operands: Buffers
    results: Buffers
    operand_dims: Dims
    result_dims: Dims


class Param(
    Struct,
    name="IngotParam",
    notes={
        "dims": "int64_t[rank], -1 where symbolic",
        "descr": "the NumPy dtype object; null where there is no Python",
        "type_number": "NumPy's number of the type",
    },
):
    """A parameter of a program."""

    dims: Array[i64]
    rank: i64
    element_bytes: i64
    descr: Pointer | None
    type_number: i32


class Output(
    Struct,
    name="IngotOutput",
    notes={
        "bytes_slot": "index in `sizes` of this output's byte size",
        "dims_slot": "index in `sizes` of its first dimension",
        "alias_param": "parameter whose memory may be reused, or -1",
        "descr": "the NumPy dtype object; null where there is no Python",
    },
):
    """An output of a program."""

    rank: i64
    element_bytes: i64
    bytes_slot: i64
    dims_slot: i64
    alias_param: i64
    descr: Pointer


SizesFunction = Callable[[Dims, Array[i64], Pointer | None], i32]
"""`S_sizes` of the execution ABI."""

RunFunction = Callable[[Runtime, Buffers, Buffers, Pointer | None, Array[i64], Pointer | None], i32]
"""`S_run` of the execution ABI."""

ProfileFunction = Callable[[Runtime, RunFunction, Pointer | None, i64, i64], i64]
"""`ingot.runtime.executor.profiler.profile`."""


class Program(
    Struct,
    name="IngotProgram",
    notes={
        "sizes": "S_sizes of the execution ABI",
        "run": "S_run of the execution ABI",
        "constants": "constant block, 64-byte aligned",
        "runtime": "the IngotRuntime that `run` gets",
        "params": "IngotParam[num_params]",
        "outputs": "IngotOutput[num_outputs]",
        "release_gil_bytes": "bytes that a call touches from which it frees the GIL",
    },
):
    """A compiled program that can be run."""

    sizes: SizesFunction
    run: RunFunction
    constants: Pointer | None
    runtime: Runtime
    num_params: i64
    num_outputs: i64
    num_symbols: i64
    num_sizes: i64
    params: Structs[Param]
    outputs: Structs[Output]
    release_gil_bytes: i64


class StageFunctions(
    Struct,
    name="IngotStageFunctions",
    notes={
        "allocate": "a block of at least the given bytes; its address goes to the third argument",
        "free": "null is allowed",
        "copy": "bytes of one block to another: target, source",
        "read": "bytes of a block to the host, when the work enqueued before is done",
        "execute": "a stage, with an arena",
    },
):
    """Functions on blocks of a device, for the code between stages; each returns a status."""

    allocate: Callable[[Runtime, i64, Array[Pointer | None]], i32]
    free: Callable[[Runtime, Pointer | None], None]
    copy: Callable[[Runtime, Pointer, Pointer, i64], i32]
    read: Callable[[Runtime, Pointer, Pointer, i64], i32]
    execute: Callable[[Program, Runtime, Buffers, Buffers, Array[i64]], i32]


class SharedMemory(
    Struct,
    name="IngotSharedMemory",
    notes={
        "runtime": "the record of the device, first or last argument of the functions",
        "allocate": "null if there is none",
        "free": "void(data, bytes, runtime)",
        "holds": "whether memory is of this kind",
    },
):
    """Memory that a device and the host both use at one address, and that moves between them."""

    runtime: Runtime
    allocate: Callable[[Runtime, i64], Pointer | None]
    free: Callable[[Pointer | None, i64, Pointer | None], None]
    holds: Callable[[Runtime, Pointer | None], i32]


class Staged(
    Struct,
    name="IngotStaged",
    notes={
        "code": "the first instruction",
        "frame_words": "words of a frame, which the caller sets to zero",
        "slots": "int64_t[num_slots], the offset of each slot in the frame",
    },
):
    """A program of stages; `ingot.runtime.executor.staged_code` runs it."""

    code: Pointer
    frame_words: i64
    num_slots: i64
    slots: Array[i64]


POOL, RUNTIME, PARAM, OUTPUT = Pool.c_layout, Runtime.c_layout, Param.c_layout, Output.c_layout
PROGRAM, STAGED, CALL_FRAME = Program.c_layout, Staged.c_layout, CallFrame.c_layout
STAGE_FUNCTIONS = StageFunctions.c_layout

ABI_VERSION = 5

PUBLIC_RECORDS = (RUNTIME, POOL, PARAM, OUTPUT, PROGRAM, STAGE_FUNCTIONS, STAGED, CALL_FRAME)


def c_header() -> str:
    """Return the C declarations of the records and functions that other native code may use."""
    records = "\n\n".join(record.c_declaration() for record in PUBLIC_RECORDS)
    return f"""#pragma once
#include <stdint.h>

{records}

/* Status of the functions below: 0 = done, 1+k = run error k, -1 = out of memory,
   -2-k = shape constraint k violated, INT32_MIN = cancelled. */
int32_t ingot_prepare(IngotProgram* program, const int64_t* const* in_dims, int64_t* sizes);
int32_t ingot_execute(IngotProgram* program, void* const* inputs, void* const* outputs,
                      const int64_t* sizes);
int32_t ingot_execute_on(IngotProgram* program, IngotRuntime* runtime, void* const* inputs,
                         void* const* outputs, const int64_t* sizes);
int32_t ingot_execute_watched(IngotProgram* program, IngotRuntime* runtime, void* const* inputs,
                              void* const* outputs, const int64_t* sizes);
/* `first` is what *attention was when the execution began. */
int32_t ingot_poll(IngotRuntime* runtime, int64_t first);
void ingot_interrupt(void);
int32_t ingot_call(IngotProgram* program, void* const* inputs, const int64_t* const* in_dims,
                   void* const* outputs);
/* S_sizes, S_run and a kernel of programs that are steps. */
int32_t ingot_steps_sizes(const int64_t* const* in_dims, int64_t* sizes, const void* constants);
int32_t ingot_steps_run(IngotRuntime* runtime, void* const* inputs, void* const* outputs,
                        void* temp, const int64_t* sizes, const void* constants);
void ingot_steps_copy(void* env, int64_t chunk);
/* 0, or the number of the instruction that failed << 32 | its status. */
int64_t ingot_stages_run(IngotStaged* staged, int64_t* frame, IngotRuntime* runtime);
void* ingot_allocate(int64_t bytes);
void ingot_free(void* data);
void ingot_trim(void);
IngotRuntime* ingot_runtime(void);
void ingot_initialize(int64_t num_threads, int64_t spin, int64_t cache_limit);
int64_t ingot_profile(IngotRuntime* runtime, void* run, void* constants, int64_t site,
                      int64_t start);
void ingot_parallel(IngotPool* pool, void (*function)(void* env, int64_t chunk), void* env,
                    int64_t chunks);
"""

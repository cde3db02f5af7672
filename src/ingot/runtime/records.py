# SPDX-License-Identifier: Apache-2.0
"""The records of the runtime: what lies where in the memory that native code shares.

One table for everyone: the emitted pool, allocator and execution code, Python, and native code by
others (the TensorFlow kernel, the PJRT client), who get the C declarations from `c_header`.
Invariant: `Runtime` begins with `artifact.abi.RUNTIME_FIELDS`, as compiled programs expect.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.artifact.abi import FRAME_FIELDS
from ingot.native.layout import Field, Record
from ingot.native.pointers import Atomic, Pointer, Struct
from ingot.native.types import i32, i64

NUM_SIZE_CLASSES = 168
"""Size classes of the allocator: 4 up to 256 bytes, then 4 per power of two up to 2**48 bytes."""

BLOCK_HEADER_BYTES = 64
"""A block's header precedes its data by this much, so that both are 64-byte aligned."""

RUNTIME = Record(
    "IngotRuntime",
    Field("pool", "ptr", note="the thread pool, first argument of `parallel`"),
    Field("parallel", "ptr", note="void(ptr pool, ptr fn, ptr env, i64 nchunks)"),
    Field("profile", "ptr", note="`ingot_profile` while somebody profiles, else null"),
    Field("attention", "ptr", note="int64_t: advanced when executions are to poll"),
    Field("poll", "ptr", note="i32(ptr runtime, i64 first): not 0 if the execution is to end"),
    Field("cancelled", "i64", note="1: executions with this record end"),
    Field("deadline", "i64", note="when they end, in ns of CLOCK_MONOTONIC; 0: never"),
    Field("num_threads", "i64", note="threads that take part, the caller included"),
    Field("allocate", "ptr", note="ptr(i64 bytes), 64-byte aligned, null if there is no memory"),
    Field("free", "ptr", note="void(ptr), null is allowed"),
    Field("abi_version", "i64"),
    Field("replica", "i64", note="replica-id of this execution"),
    Field("partition", "i64", note="partition-id of this execution"),
    Field("rendezvous", "ptr", note="where the devices of this execution meet; null: it is alone"),
)

CALL_FRAME = Record("IngotCallFrame", *(Field(name, "ptr") for name in FRAME_FIELDS))

ChunkFunction = Callable[[Pointer | None, i64], None]
"""`void(ptr env, i64 chunk)`."""


class Pool(
    Struct,
    name="IngotPool",
    own_line=("state", "function", "done", "sleepers", "lock", "num_threads"),
    notes={
        "state": "epoch:32 | tickets:16 | next:16",
        "function": "void(ptr env, i64 chunk) of this epoch",
        "chunks": "chunks of this epoch",
        "grain": "chunks per ticket; 1 unless chunks do not fit in 16 bits",
        "done": "tickets finished in this epoch",
        "sleepers": "workers that sleep or are about to",
        "lock": "1 while a caller owns the pool",
        "num_threads": "threads wanted, the caller included",
        "started": "workers that exist",
        "next_worker": "number the next worker gives itself",
        "spin": "pauses before a worker goes to sleep",
    },
):
    """The thread pool; `ingot.runtime.pool` runs it."""

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


POOL = Pool.c_layout

ALLOCATOR = Record(
    "IngotAllocator",
    Field("lock", "i32", own_line=True),
    Field("bytes_in_use", "i64", note="capacity of all blocks handed out"),
    Field("peak_bytes", "i64", note="the most that `bytes_in_use` was"),
    Field("bytes_cached", "i64", note="capacity of all blocks kept for reuse"),
    Field("cache_limit", "i64", note="the most that `bytes_cached` may be"),
    Field("memory_limit", "i64", note="new blocks beyond so many bytes in use are refused"),
    Field("allocations", "i64", note="calls that gave a block"),
    Field("frees", "i64", note="blocks given back"),
    Field("system_allocations", "i64", note="blocks that had to come from the system"),
    Field("free_lists", "ptr", count=NUM_SIZE_CLASSES, note="per class: a list of block headers"),
)

BLOCK = Record(
    "IngotBlock",
    Field("capacity", "i64", note="bytes that the user may use"),
    Field("size_class", "i64"),
    Field("base", "ptr", note="what the system gave; mapped blocks start some lines after it"),
    Field("next", "ptr", note="next header in the free list"),
)

PARAM = Record(
    "IngotParam",
    Field("dims", "ptr", note="int64_t[rank], -1 where symbolic"),
    Field("rank", "i64"),
    Field("element_bytes", "i64"),
    Field("descr", "ptr", note="the NumPy dtype object; null where there is no Python"),
    Field("type_number", "i32", note="NumPy's number of the type"),
)

OUTPUT = Record(
    "IngotOutput",
    Field("rank", "i64"),
    Field("element_bytes", "i64"),
    Field("bytes_slot", "i64", note="index in `sizes` of this output's byte size"),
    Field("dims_slot", "i64", note="index in `sizes` of its first dimension"),
    Field("alias_param", "i64", note="parameter whose memory may be reused, or -1"),
    Field("descr", "ptr", note="the NumPy dtype object; null where there is no Python"),
)

PROGRAM = Record(
    "IngotProgram",
    Field("sizes", "ptr", note="S_sizes of the execution ABI"),
    Field("run", "ptr", note="S_run of the execution ABI"),
    Field("constants", "ptr", note="constant block, 64-byte aligned"),
    Field("runtime", "ptr", note="the IngotRuntime that `run` gets"),
    Field("num_params", "i64"),
    Field("num_outputs", "i64"),
    Field("num_symbols", "i64"),
    Field("num_sizes", "i64"),
    Field("params", "ptr", note="IngotParam[num_params]"),
    Field("outputs", "ptr", note="IngotOutput[num_outputs]"),
    Field("release_gil_bytes", "i64", note="calls that touch at least so many bytes free the GIL"),
)

STAGED = Record(
    "IngotStaged",
    Field("code", "ptr", note="the first instruction"),
    Field("frame_words", "i64", note="words of a frame, which the caller sets to zero"),
    Field("num_slots", "i64"),
    Field("slots", "ptr", note="int64_t[num_slots], the offset of each slot in the frame"),
)

PYTHON = Record(
    "IngotPython",
    Field("array_type", "ptr", note="numpy.ndarray"),
    Field("new_from_descr", "ptr", note="PyArray_NewFromDescr"),
    Field("memory_handler", "ptr", note="capsule through which NumPy gives blocks back"),
    Field("refuse", "ptr", note="Python: (program, *args), for arguments the fast path refuses"),
    Field("fail", "ptr", note="Python: (program, status, *args), raises"),
    Field("inc_ref", "ptr", note="Py_IncRef"),
    Field("dec_ref", "ptr", note="Py_DecRef"),
    Field("vectorcall", "ptr", note="PyObject_Vectorcall"),
    Field("long_from_long", "ptr", note="PyLong_FromLong"),
    Field("tuple_new", "ptr", note="PyTuple_New"),
    Field("tuple_set_item", "ptr", note="PyTuple_SetItem"),
    Field("save_thread", "ptr", note="PyEval_SaveThread"),
    Field("restore_thread", "ptr", note="PyEval_RestoreThread"),
    Field("ensure_gil", "ptr", note="PyGILState_Ensure"),
    Field("release_gil", "ptr", note="PyGILState_Release"),
    Field("check_signals", "ptr", note="PyErr_CheckSignals"),
    Field("fetch_error", "ptr", note="PyErr_Fetch"),
    Field("add_pending_call", "ptr", note="Py_AddPendingCall: for the main thread"),
    Field("ends_by_interrupt", "ptr", note="Python: (), whether Ctrl-C raises KeyboardInterrupt"),
    Field("true", "ptr", note="Py_True"),
    Field("main_thread", "i64", note="pthread_self of the thread that runs signal handlers"),
    Field("main_calls", "i64", note="calls of `ingot_execute_python` on the main thread"),
    Field("interrupt", "ptr", count=3, note="what a handler raised: type, value, traceback"),
)

INTERRUPTS = Record(
    "IngotInterrupts",
    Field("count", "i64", own_line=True, note="times that Ctrl-C was pressed"),
    Field("answered", "i64", note="`count` when the main thread last ran Python after that"),
    Field("asked", "i64", note="`count` when the main thread was last asked to answer"),
    Field("last", "i64", note="the counter of `attention` after the last Ctrl-C"),
    Field("waited", "i64", note="ticks since then"),
    Field("settled", "i64", note="`count` for which it was decided whether executions end"),
    Field("ended", "i64", note="executions end whose counter was less when they began"),
    Field("previous", "ptr", note="the handler of SIGINT that is called after ours"),
)

ABI_VERSION = 3

PUBLIC_RECORDS = (RUNTIME, POOL, PARAM, OUTPUT, PROGRAM, STAGED, CALL_FRAME)


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

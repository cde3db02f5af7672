# SPDX-License-Identifier: Apache-2.0
"""The objects of the PJRT C API as C-layout records: what lies where behind each handle.

A handle (`PJRT_Buffer*`, `PJRT_Device*`, ...) is the address of one of these. Python fills those
of the client, its devices and executables; emitted code makes and frees errors, events, storages,
buffers and jobs. Invariant: whoever holds a handle holds one reference; `references` counts them,
atomically, and the last one to go frees the record.
"""

from __future__ import annotations

from ingot.native.layout import Field, Record


def _text(name: str, note: str = "") -> tuple[Field, Field]:
    """Return the two fields of a text: address and bytes."""
    return Field(name, "ptr", note=note), Field(f"{name}_size", "i64")


def _list(name: str, note: str = "") -> tuple[Field, Field]:
    """Return the two fields of a list: address and count."""
    return Field(name, "ptr", note=note), Field(f"num_{name}", "i64")


ERROR = Record(
    "IngotPjrtError",
    Field("references", "i64"),
    Field("code", "i32", note="PJRT_Error_Code"),
    *_text("message", "lies after the record unless the record is static"),
)

EVENT = Record(
    "IngotPjrtEvent",
    Field("references", "i64"),
    Field("done", "i32", note="1 once it has happened; what waiters sleep on"),
    Field("lock", "i32"),
    Field("error", "ptr", note="null, or why it failed; set before `done`"),
    Field("waiters", "ptr", note="list of IngotPjrtWaiter, last one first"),
    Field("late", "i32", note="1: a later call of the host decides when; see `hot_queue`"),
)

WAITER = Record(
    "IngotPjrtWaiter",
    Field("next", "ptr"),
    Field("callback", "ptr", note="void(PJRT_Error*, void* user_arg)"),
    Field("user_arg", "ptr"),
)

STORAGE = Record(
    "IngotPjrtStorage",
    Field("references", "i64"),
    Field("data", "ptr"),
    Field("bytes", "i64"),
    Field("event", "ptr", note="when the data is there; null: it is"),
    Field("external", "i64", note="references by host views, which forbid donation"),
    Field(
        "release", "ptr", note="void(ptr data, ptr context) for memory that is not ours, or null"
    ),
    Field("context", "ptr"),
)

GONE = 1 << 62
"""In `users`: nobody may begin to use the storage; who ends last gives it back."""

STORAGE_HEADER_BYTES = 64
"""Our own memory lies this far after its storage record, so that it is 64-byte aligned."""

BUFFER = Record(
    "IngotPjrtBuffer",
    Field("storage", "ptr", note="null once deleted or donated, and not in use any more"),
    Field("users", "i64", note="calls that use the storage now, and GONE once it is deleted"),
    Field("dims", "ptr", note="int64_t[rank], after the record"),
    Field("bytes", "i64"),
    Field("type", "i32", note="PJRT_Buffer_Type"),
    Field("deleted", "i8"),
    Field("mark_donated", "i8", note="whether the execution that set `mark` donates it"),
    Field("rank", "i64"),
    Field("device", "ptr"),
    Field("memory", "ptr"),
    Field("held", "ptr", note="storage that host views of this buffer use"),
    Field("views", "i64", note="host views of this buffer"),
    Field("mark", "i64", note="number of the last execution with donations that took it"),
)

LAYOUT = Record("IngotPjrtLayout", *_text("text", "as XLA writes it"))

CLIENT = Record(
    "IngotPjrtClient",
    *_text("platform_name"),
    *_text("platform_version"),
    Field("process_index", "i32"),
    Field("topology", "ptr"),
    *_list("devices"),
    *_list("memories"),
)

TOPOLOGY = Record(
    "IngotPjrtTopology",
    *_text("platform_name"),
    *_text("platform_version"),
    *_list("descriptions"),
    *_list("attributes"),
)

DESCRIPTION = Record(
    "IngotPjrtDeviceDescription",
    Field("id", "i32"),
    Field("process_index", "i32"),
    *_text("device_kind"),
    *_text("to_string"),
    *_text("debug_string"),
    *_list("attributes"),
)

DEVICE = Record(
    "IngotPjrtDevice",
    Field("id", "i32"),
    Field("is_addressable", "i8"),
    Field("description", "ptr"),
    Field("client", "ptr"),
    Field("default_memory", "ptr"),
    *_list("memories"),
    Field("lock", "i32", own_line=True, note="of the queue"),
    Field("queued", "i32", note="jobs put into the queue so far; the worker sleeps on it"),
    Field("first", "ptr", note="oldest IngotPjrtJob of the queue"),
    Field("last", "ptr"),
    Field("running", "ptr", note="IngotPjrtJob that the worker runs now, or null"),
    Field("unfinished", "i64", note="jobs in the queue or running"),
    Field("finished", "i32", note="jobs done so far; hosts that are far ahead sleep on it"),
    Field("waiting", "i32", note="hosts that sleep there"),
    Field("started", "i32", note="1 once the worker exists"),
    Field("launches", "i64", own_line=True, note="executions so far"),
    Field("waited", "i64", note="bit k: the host waited at once for the k-th last of them"),
    Field("deadline", "i64", note="cycle until which asking for a result is at once"),
)

MEMORY = Record(
    "IngotPjrtMemory",
    Field("id", "i32"),
    Field("kind_id", "i32"),
    *_text("kind"),
    *_text("to_string"),
    *_text("debug_string"),
    *_list("devices"),
)

OUTPUT = Record(
    "IngotPjrtOutput",
    Field("dims", "ptr"),
    Field("rank", "i64"),
    Field("bytes", "i64"),
    Field("type", "i32"),
    Field("memory_index", "i32", note="which of the device's memories it lies in"),
    Field("alias", "i64", note="argument whose memory it takes if that is donated, or -1"),
)

ARGUMENT = Record(
    "IngotPjrtArgument",
    Field("bytes", "i64"),
    Field("type", "i32"),
    Field("donated", "i8"),
)

EXECUTABLE = Record(
    "IngotPjrtExecutable",
    Field("references", "i64", note="PJRT_Executable and PJRT_LoadedExecutable are one record"),
    Field("program", "ptr", note="IngotProgram"),
    Field("sizes", "ptr", note="int64_t[], what `ingot_prepare` computed once"),
    Field("num_arguments", "i64"),
    Field("arguments", "ptr", note="IngotPjrtArgument[num_arguments]"),
    Field("num_outputs", "i64"),
    Field("outputs", "ptr", note="IngotPjrtOutput[num_outputs]"),
    Field("default_device", "ptr"),
    Field("donates", "i8", note="whether any argument may be donated"),
    Field("deleted", "i8"),
    Field("mode", "i32", note="INLINE, QUEUED, MANY or PATIENT"),
    Field("last_launch", "i64", note="its last execution, by the device's `launches`"),
    Field("waits", "i64", note="executions in a row for which the host waited at once"),
    Field("num_replicas", "i64"),
    Field("num_partitions", "i64"),
    Field("code_bytes", "i64"),
    *_text("name"),
    *_text("fingerprint"),
    *_list("devices"),
    Field("output_types", "ptr", note="int32_t[num_outputs]"),
    Field("output_dims", "ptr", note="int64_t[], of all outputs one after the other"),
    Field("output_ranks", "ptr", note="size_t[num_outputs]"),
    Field("memory_kinds", "ptr", note="const char*[num_outputs]"),
    Field("memory_kind_sizes", "ptr", note="size_t[num_outputs]"),
)

INLINE = 0
"""Runs in the call of Execute."""
QUEUED = 1
"""Runs on the device's worker, unless the host waits for it anyway (`hot_waits`)."""
MANY = 2
"""Runs on several devices at once; Python gives each worker its part."""
PATIENT = 3
"""Waits in the call for its arguments, then runs there: it may call back into the host."""

JOB = Record(
    "IngotPjrtJob",
    Field("next", "ptr"),
    Field("device", "ptr", note="whose queue it is for"),
    Field("together", "i32", note="1: a part of an execution on several devices"),
    Field("deferred", "i32", note="1: it waits outside of the queue, and holds its inputs"),
    Field("launch_id", "i32", note="the host's name of the execution"),
    Field("executable", "ptr", note="null: copy `bytes` from the only input to `target`"),
    Field("program", "ptr", note="IngotProgram to run; its runtime may be this execution's own"),
    Field("event", "ptr", note="set when it is done"),
    Field("num_inputs", "i64"),
    Field("inputs", "ptr", note="storages, after the record"),
    Field("input_events", "ptr", note="their events when the job was made, or null"),
    Field("num_outputs", "i64"),
    Field("outputs", "ptr", note="storages"),
    Field("target", "ptr"),
    Field("offset", "i64"),
    Field("bytes", "i64"),
)

FAILURE = Record(
    "IngotPjrtFailure",
    Field("executable", "ptr"),
    Field("program", "ptr"),
    Field("status", "i32"),
)

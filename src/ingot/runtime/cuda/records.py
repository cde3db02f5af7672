# SPDX-License-Identifier: Apache-2.0
"""What native functions know of a GPU: the driver's functions, and the stream of a device."""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i32, i64
from ingot.runtime.records import Program, Runtime

Stream = Pointer | None
"""CUstream; null is the default stream."""


class CudaDriver(
    Struct,
    name="IngotCudaDriver",
    notes={
        "set_context": "cuCtxSetCurrent",
        "launch": "cuLaunchKernel",
        "copy_to_device": "cuMemcpyHtoDAsync",
        "copy_to_host": "cuMemcpyDtoHAsync",
        "copy_on_device": "cuMemcpyDtoDAsync",
        "synchronize": "cuStreamSynchronize",
        "allocate": "cuMemAllocAsync",
        "free": "cuMemFreeAsync",
    },
):
    """Functions of the driver; each returns a CUresult, 0 if all went well."""

    set_context: Callable[[Pointer], i32]
    launch: Callable[
        [
            Pointer, i32, i32, i32, i32, i32, i32, i32, Pointer | None, Array[Pointer],
            Pointer | None,
        ],
        i32,
    ]  # fmt: skip
    copy_to_device: Callable[[Pointer, Pointer, i64, Pointer | None], i32]
    copy_to_host: Callable[[Pointer, Pointer, i64, Pointer | None], i32]
    copy_on_device: Callable[[Pointer, Pointer, i64, Pointer | None], i32]
    synchronize: Callable[[Pointer | None], i32]
    allocate: Callable[[Array[Pointer | None], i64, Pointer | None], i32]
    free: Callable[[Pointer, Pointer | None], i32]


class CudaStream(
    Struct,
    name="IngotCudaStream",
    notes={
        "process": "the runtime record of the process",
        "blocking": "1: each launch is waited for, so that an error is that of its kernel",
        "failure": "the CUresult that ended the last execution that failed",
        "site": "the site (ingot.host.sites) that failed; -1 if it was none",
    },
):
    """Where executions on a device are enqueued."""

    driver: CudaDriver
    process: Runtime
    context: Pointer
    handle: Pointer | None
    blocking: i64
    failure: i64
    site: i64


class HostedProgram(
    Struct,
    name="IngotHostedProgram",
    notes={
        "runtime": "the record of the device",
        "transfers": "S_transfers of the program",
    },
):
    """A program of a GPU that is called with arrays of the host."""

    program: Program
    runtime: Runtime
    transfers: Callable[[Array[i64], Array[i64]], i32]

# SPDX-License-Identifier: Apache-2.0
"""Records for native functions: the driver's functions, the stream of a device."""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i32, i64
from ingot.runtime.records import Program, Runtime


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
        "allocate_shared": "cuMemAllocManaged",
        "free_shared": "cuMemFree",
        "pointer_attribute": "cuPointerGetAttribute",
        "graph_create": "cuGraphCreate",
        "graph_add_kernel": "cuGraphAddKernelNode",
        "graph_add_copy": "cuGraphAddMemcpyNode",
        "graph_instantiate": "cuGraphInstantiateWithFlags",
        "graph_launch": "cuGraphLaunch",
        "graph_exec_destroy": "cuGraphExecDestroy",
        "graph_destroy": "cuGraphDestroy",
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
    allocate_shared: Callable[[Pointer, i64, i32], i32]
    free_shared: Callable[[Pointer], i32]
    pointer_attribute: Callable[[Pointer, i32, Pointer], i32]
    graph_create: Callable[[Pointer, i32], i32]
    graph_add_kernel: Callable[[Pointer, Pointer, Pointer, i64, Pointer], i32]
    graph_add_copy: Callable[[Pointer, Pointer, Pointer, i64, Pointer, Pointer], i32]
    graph_instantiate: Callable[[Pointer, Pointer, i64], i32]
    graph_launch: Callable[[Pointer, Pointer | None], i32]
    graph_exec_destroy: Callable[[Pointer], i32]
    graph_destroy: Callable[[Pointer], i32]


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


class Graph(Struct, name="IngotCudaGraph"):
    """A graph of kernels and copies, one after the other; `artifact.device_code.GRAPH_WORDS`."""

    graph: Pointer | None  # CUgraph, while it is filled
    last: Pointer | None  # its last CUgraphNode
    executable: Pointer | None  # CUgraphExec


class KernelNode(Struct, name="CUDA_KERNEL_NODE_PARAMS_v2"):
    """The launch of a kernel node; grid and block have size 1 along y and z."""

    function: Pointer | None
    blocks: i32
    blocks_y: i32
    blocks_z: i32
    threads: i32
    threads_y: i32
    threads_z: i32
    shared_bytes: i64
    parameters: Array[Pointer]
    extra: Pointer | None
    kernel: Pointer
    context: Pointer


class CopyEnd(Struct, name="IngotCopyEnd"):
    """One end of a CUDA_MEMCPY3D."""

    x: i64
    y: i64
    z: i64
    level: i64
    memory_type: i64
    host: Pointer | None
    device: Pointer
    array: Pointer | None
    reserved: Pointer | None
    pitch: i64
    height: i64


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

# SPDX-License-Identifier: Apache-2.0
"""Iterations of a loop as one CUDA graph, as native functions that host programs call.

A graph is filled launch by launch, each after the one before, and instantiated once; then it is
launched repeatedly. The gaps between the nodes of a graph are shorter than those between separate
launches. While kernels are waited for one by one (by a profiler, or CUDA_LAUNCH_BLOCKING) there is
no graph.

Invariant: a failure frees the graph, and so does `graph_end`. The driver frees a graph that still
runs when it is done.
"""

from __future__ import annotations

from ingot.artifact.device_code import (
    GRAPH_BEGIN,
    GRAPH_COPY,
    GRAPH_END,
    GRAPH_KERNEL,
    GRAPH_LAUNCH,
    GRAPH_MAKE,
)
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import memset, unlikely
from ingot.native.pointers import Array, Pointer, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.cuda.native import INVALID_VALUE, MOST_BLOCKS, NO_SITE, outcome, stream_of
from ingot.runtime.cuda.records import CopyEnd, Graph, KernelNode
from ingot.runtime.records import Runtime

_ON_DEVICE = 2
"""CU_MEMORYTYPE_DEVICE."""

_BOX_WORDS = 3
"""Words of a CUDA_MEMCPY3D behind both ends: width, height, depth."""


@exported(GRAPH_BEGIN)
def graph_begin(runtime: Runtime, graph: Graph) -> i32:
    """Begin a graph; there is none if kernels are waited for."""
    graph.graph = None
    graph.last = None
    graph.executable = None
    stream = stream_of(runtime)
    if stream.blocking != 0 or runtime.profile is not None:
        return 0
    return outcome(stream, stream.driver.graph_create(graph, 0), NO_SITE)


@exported(GRAPH_END)
def graph_end(runtime: Runtime, graph: Graph) -> i32:
    """Free a graph, finished or not."""
    driver = stream_of(runtime).driver
    made = graph.graph
    if made is not None:
        driver.graph_destroy(made)
        graph.graph = None
    executable = graph.executable
    if executable is not None:
        driver.graph_exec_destroy(executable)
        graph.executable = None
    return 0


@native
def graph_outcome(runtime: Runtime, graph: Graph, result: i32, site: i64) -> i32:
    """Return the status after a CUresult; free the graph if it is an error."""
    if unlikely(result != 0):
        graph_end(runtime, graph)
    return outcome(stream_of(runtime), result, site)


@inlined
def last_of(graph: Graph, before: Array[Pointer | None]) -> i64:
    """Store the last node at `before`; return the number of nodes there: 0 or 1."""
    before[0] = graph.last
    if graph.last is None:
        return 0
    return 1


@exported(GRAPH_KERNEL)
def graph_kernel(
    runtime: Runtime,
    graph: Graph,
    kernel: Pointer,
    blocks: i64,
    threads: i64,
    parameters: Array[Pointer],
    site: i64,
) -> i32:
    """Add a kernel; see `native.launch`. Its parameters are copied."""
    if unlikely(blocks > MOST_BLOCKS):
        return graph_outcome(runtime, graph, INVALID_VALUE, site)
    stream = stream_of(runtime)
    node = KernelNode.on_stack()
    node.function = None
    node.blocks = i32(blocks)
    node.blocks_y = 1
    node.blocks_z = 1
    node.threads = i32(threads)
    node.threads_y = 1
    node.threads_z = 1
    node.shared_bytes = 0
    node.parameters = parameters
    node.extra = None
    node.kernel = kernel
    node.context = stream.context
    before = Array[Pointer | None].on_stack(1)
    count = last_of(graph, before)
    made = graph.graph
    assert made is not None
    to = Array[Pointer | None].on_stack(1)
    result = stream.driver.graph_add_kernel(to, made, before, count, node)
    graph.last = to[0]
    return graph_outcome(runtime, graph, result, site)


@inlined
def fill_end(end: CopyEnd, address: Pointer, size: i64) -> None:
    """Fill in the address of one end of a copy."""
    end.memory_type = _ON_DEVICE
    end.device = address
    end.pitch = size
    end.height = 1


@exported(GRAPH_COPY)
def graph_copy(runtime: Runtime, graph: Graph, target: Pointer, source: Pointer, size: i64) -> i32:
    """Add the copy of `size` bytes from one address of the device to another."""
    if size == 0:
        return 0
    stream = stream_of(runtime)
    words = Array[i64].on_stack(2 * (sizeof(CopyEnd) // 8) + _BOX_WORDS)
    memset(words, 0, 2 * sizeof(CopyEnd) + _BOX_WORDS * 8)
    ends = Structs[CopyEnd].at(words)
    fill_end(ends[0], source, size)
    fill_end(ends[1], target, size)
    box = Array[i64].at(Pointer.at(words) + 2 * sizeof(CopyEnd))
    box[0] = size
    box[1] = 1
    box[2] = 1
    before = Array[Pointer | None].on_stack(1)
    count = last_of(graph, before)
    made = graph.graph
    assert made is not None
    to = Array[Pointer | None].on_stack(1)
    result = stream.driver.graph_add_copy(to, made, before, count, words, stream.context)
    graph.last = to[0]
    return graph_outcome(runtime, graph, result, NO_SITE)


@exported(GRAPH_MAKE)
def graph_make(runtime: Runtime, graph: Graph) -> i32:
    """Instantiate a graph, so that it can be launched."""
    driver = stream_of(runtime).driver
    made = graph.graph
    assert made is not None
    to = Array[Pointer | None].on_stack(1)
    to[0] = None
    result = driver.graph_instantiate(to, made, 0)
    graph.executable = to[0]
    return graph_outcome(runtime, graph, result, NO_SITE)


@exported(GRAPH_LAUNCH)
def graph_launch(runtime: Runtime, graph: Graph) -> i32:
    """Launch a graph."""
    stream = stream_of(runtime)
    executable = graph.executable
    assert executable is not None
    result = stream.driver.graph_launch(executable, stream.handle)
    return graph_outcome(runtime, graph, result, NO_SITE)


GRAPH_FUNCTIONS = (graph_begin, graph_kernel, graph_copy, graph_make, graph_launch, graph_end)

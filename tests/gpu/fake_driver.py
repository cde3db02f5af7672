# SPDX-License-Identifier: Apache-2.0
"""A CUDA driver without a GPU: kernels run under the emulation (`simt`), in the memory of the host.

What is enqueued runs when somebody waits for the stream, in order; what is freed is filled with
bytes that nobody expects. So a missing wait shows as a wrong result, and memory that is used after
it was freed does too. Addresses that are not of live memory, calls without a context, and launches
that no GPU takes are refused as the driver refuses them.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.gpu.shielded import shielded
from tests.gpu.simt import BEHIND, EmulatedModule, RaceError, StuckError

from ingot.runtime.cuda.devices import (
    MAJOR,
    MEMORY_POOLS,
    MINOR,
    MULTIPROCESSORS,
    SHARES_MEMORY,
)
from ingot.runtime.cuda.driver import LAUNCH_FAILED, PROTOTYPES
from ingot.runtime.cuda.records import KernelNode

INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, NOT_FOUND = 1, 2, 201, 500
NAMES = {INVALID_VALUE: b"CUDA_ERROR_INVALID_VALUE", OUT_OF_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY"}
MOST_THREADS = 1024
FREED = 0xA7

SHIELDED = ("cuCtxSetCurrent", "cuMemFreeAsync", "cuMemFree_v2")
"""What is called when an array goes, whatever happens meanwhile."""

WITHOUT_CONTEXT = ("cuInit", "cuDriver", "cuDevice", "cuGet", "cuCtx")


Nodes = dict[int, tuple[list[int], Callable[[], None]]]
"""The nodes of a graph: those that each comes after, and what it does."""


@dataclass
class Block:
    """Memory of the device: bytes with a margin that nobody may write."""

    data: np.ndarray
    size: int
    is_live: bool = True

    @property
    def address(self) -> int:
        """Where it begins: a multiple of 256."""
        return (self.data.ctypes.data + 255) // 256 * 256

    def holds(self, address: int, size: int) -> bool:
        """Whether a range is inside of it."""
        return self.address <= address and address + size <= self.address + self.size


@dataclass
class FakeDriver:
    """The functions, and what they were asked.

    Attributes:
        sources: LLVM IR of the kernels, by the PTX that was made of it.
        calls: how often each function was called.
        failures: the CUresult that the next call of a function returns, by its name.
        memory: bytes that may be allocated.
        devices: how many there are, all with the same memory and one queue.
        version: of the driver.
        seed: says in which order threads and blocks run.
        checks_races: whether kernels run with shadow memory.
        shares_memory: whether the host may use managed memory while the device does.
        problems: of kernels that failed, which the driver calls CUDA_ERROR_LAUNCH_FAILED.
    """

    sources: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    failures: dict[str, int] = field(default_factory=dict)
    memory: int = 1 << 30
    devices: int = 1
    version: int = 12040
    capability: tuple[int, int] = (9, 0)
    seed: int = 0
    checks_races: bool = False
    shares_memory: bool = True
    problems: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have no memory, no code, and an empty stream."""
        self.blocks: dict[int, Block] = {}
        self.queue: list[Callable[[], None]] = []
        self.kernels: dict[int, tuple[EmulatedModule, str]] = {}
        self.shared: set[int] = set()
        self.graphs: dict[int, Nodes] = {}
        self.executables: dict[int, Nodes] = {}
        self._libraries: dict[int, EmulatedModule] = {}
        self._kept: list[Any] = []
        # By the system's number: a thread of others is a new one to Python in each call.
        self._contexts: dict[int, int] = {}
        self._running = threading.RLock()
        self._choose = np.random.default_rng(self.seed)
        self._next = 1 << 20
        bodies = {name: self._body(name) for name in PROTOTYPES}
        kinds = {name: ctypes.CFUNCTYPE(ctypes.c_int, *PROTOTYPES[name]) for name in PROTOTYPES}
        places = shielded({name: bodies[name] for name in SHIELDED})
        self._functions = {
            name: kinds[name](places.get(name) or bodies[name]) for name in PROTOTYPES
        }

    def __getitem__(self, name: str) -> Any:
        """Return a function for ctypes."""
        return self._functions[name]

    def _body(self, name: str) -> Callable[..., int]:
        made, count = getattr(self, name), len(PROTOTYPES[name])

        def run(*args: Any) -> int:
            self.calls[name] += 1
            if name in self.failures:
                return self.failures.pop(name)
            outside = name.startswith(WITHOUT_CONTEXT)
            if not outside and not self._contexts.get(threading.get_native_id()):
                return INVALID_CONTEXT
            try:
                return made(*args[:count]) or 0
            except (AssertionError, RaceError, StuckError) as problem:
                self.problems.append(problem)
                return LAUNCH_FAILED

        return run

    def _handle(self) -> int:
        self._next += 256
        return self._next

    @property
    def in_use(self) -> int:
        """Bytes that are allocated."""
        return sum(block.size for block in self.blocks.values())

    def run_queue(self) -> None:
        """Run what was enqueued, one after the other: the emulation has one block at a time."""
        with self._running:
            while self.queue:
                self.queue.pop(0)()

    def check_margins(self) -> None:
        """Fail if somebody wrote behind the end of memory."""
        for block in self.blocks.values():
            end = block.address + block.size - block.data.ctypes.data
            assert block.data[end : end + len(BEHIND)].tobytes() == BEHIND, "written behind an end"

    # ---- the driver's functions

    def cuInit(self, flags: int) -> None:
        """Initialize."""

    def cuDriverGetVersion(self, to: int) -> None:
        """Give the version."""
        _put(to, self.version, ctypes.c_int)

    def cuGetErrorName(self, result: int, to: int) -> None:
        """Give the name of a CUresult."""
        self._put_text(to, NAMES.get(result, b"CUDA_ERROR_%d" % result))

    def cuGetErrorString(self, result: int, to: int) -> None:
        """Give what a CUresult means."""
        self._put_text(to, b"error %d" % result)

    def _put_text(self, to: int, text: bytes) -> None:
        held = ctypes.create_string_buffer(text)
        self._kept.append(held)
        _put(to, ctypes.addressof(held), ctypes.c_void_p)

    def cuDeviceGetCount(self, to: int) -> None:
        """Give how many devices there are."""
        _put(to, self.devices, ctypes.c_int)

    def cuDeviceGet(self, to: int, number: int) -> None:
        """Give the handle of a device."""
        _put(to, 7 + number, ctypes.c_int)

    def cuDeviceGetName(self, to: int, size: int, handle: int) -> None:
        """Give a device's name."""
        ctypes.memmove(to, b"emulated\0", 9)

    def cuDeviceGetAttribute(self, to: int, attribute: int, handle: int) -> None:
        """Give an attribute of a device."""
        major, minor = self.capability
        values = {MAJOR: major, MINOR: minor, MULTIPROCESSORS: 4, MEMORY_POOLS: 1}
        values[SHARES_MEMORY] = int(self.shares_memory)
        _put(to, values[attribute], ctypes.c_int)

    def cuDeviceTotalMem_v2(self, to: int, handle: int) -> None:
        """Give a device's memory."""
        _put(to, self.memory, ctypes.c_size_t)

    def cuDeviceSetMemPool(self, handle: int, pool: int) -> None:
        """Take memory from another pool."""

    def cuDeviceGetDefaultMemPool(self, to: int, handle: int) -> None:
        """Give the pool that there is."""
        _put(to, self._handle(), ctypes.c_void_p)

    def cuMemPoolCreate(self, to: int, properties: int) -> None:
        """Make a pool with a limit."""
        self.memory = min(self.memory, ctypes.c_size_t.from_address(properties + 24).value)
        _put(to, self._handle(), ctypes.c_void_p)

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        """Set how much a pool keeps."""

    def cuDevicePrimaryCtxRetain(self, to: int, handle: int) -> None:
        """Give the context of a device."""
        _put(to, self._handle(), ctypes.c_void_p)

    def cuDevicePrimaryCtxReset_v2(self, handle: int) -> None:
        """Forget all memory."""
        self.queue.clear()
        self.blocks.clear()

    def cuCtxSetCurrent(self, context: int) -> None:
        """Make a context current in this thread."""
        self._contexts[threading.get_native_id()] = context

    def cuMemGetInfo_v2(self, free: int, total: int) -> None:
        """Give how much memory is free."""
        _put(free, self.memory - self.in_use, ctypes.c_size_t)
        _put(total, self.memory, ctypes.c_size_t)

    def cuMemAllocAsync(self, to: int, size: int, stream: int) -> int:
        """Allocate memory."""
        if size == 0:
            return INVALID_VALUE
        if self.in_use + size > self.memory:
            return OUT_OF_MEMORY
        block = Block(np.full(size + 512 + len(BEHIND), FREED, np.uint8), size)
        end = block.address + size - block.data.ctypes.data
        block.data[end : end + len(BEHIND)] = np.frombuffer(BEHIND, np.uint8)
        self.blocks[block.address] = block
        _put(to, block.address, ctypes.c_void_p)
        return 0

    def cuMemFreeAsync(self, address: int, stream: int) -> int:
        """Free memory, when the stream is there."""
        block = self.blocks.get(address)
        if block is None or not block.is_live:
            return INVALID_VALUE
        block.is_live = False

        def free() -> None:
            block.data[:] = FREED
            # What runs later and still uses it finds the bytes above.
            self._kept.append(self.blocks.pop(address))

        self.queue.append(free)
        return 0

    def cuMemAllocManaged(self, to: int, size: int, flags: int) -> int:
        """Allocate memory that the host reaches too."""
        if size == 0 or flags != 1:
            return INVALID_VALUE
        result = self.cuMemAllocAsync(to, size, 0)
        if result == 0:
            self.shared.add(ctypes.c_uint64.from_address(to).value)
        return result

    def cuMemFree_v2(self, address: int, unused: int = 0) -> int:
        """Free such memory, when all is done."""
        if address not in self.shared:
            return INVALID_VALUE
        self.shared.remove(address)
        result = self.cuMemFreeAsync(address, 0)
        self.run_queue()
        return result

    def cuPointerGetAttribute(self, to: int, attribute: int, address: int) -> int:
        """Say whether an address is of memory that the host reaches too."""
        known = any(block.holds(address, 0) for block in list(self.blocks.values()))
        if attribute != 8 or not known:
            return INVALID_VALUE
        held = any(self.blocks[one].holds(address, 0) for one in list(self.shared))
        _put(to, held, ctypes.c_uint)
        return 0

    def _is_live(self, address: int, size: int) -> bool:
        return any(b.is_live and b.holds(address, size) for b in list(self.blocks.values()))

    def cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        """Copy to the device; the source is read at once, as pageable memory is."""
        if not self._is_live(to, size):
            return INVALID_VALUE
        data = ctypes.string_at(source, size)
        self.queue.append(lambda: _copy(to, data, size))
        return 0

    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        """Copy to the host, when the stream is there."""
        if not self._is_live(source, size):
            return INVALID_VALUE
        self.queue.append(lambda: _copy(to, source, size))
        return 0

    def cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> int:
        """Copy on the device."""
        if not (self._is_live(to, size) and self._is_live(source, size)):
            return INVALID_VALUE
        self.queue.append(lambda: _copy(to, source, size))
        return 0

    def cuStreamCreate(self, to: int, flags: int) -> None:
        """Make a stream."""
        _put(to, self._handle(), ctypes.c_void_p)

    def cuStreamSynchronize(self, stream: int) -> None:
        """Wait for the stream: what was enqueued runs now."""
        self.run_queue()

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        """Let a stream of another library wait."""
        self.run_queue()

    def cuEventCreate(self, to: int, flags: int) -> None:
        """Make an event."""
        _put(to, self._handle(), ctypes.c_void_p)

    def cuEventRecord(self, event: int, stream: int) -> None:
        """Record an event."""

    def cuEventDestroy_v2(self, event: int) -> None:
        """Forget an event."""

    def cuLibraryLoadData(self, to: int, code: bytes, *options: Any) -> int:
        """Load PTX."""
        source = self.sources.get(code.decode())
        if source is None:
            return INVALID_VALUE
        handle = self._handle()
        self._libraries[handle] = EmulatedModule(source, checks_races=self.checks_races)
        _put(to, handle, ctypes.c_void_p)
        return 0

    def cuLibraryUnload(self, library: int) -> int:
        """Forget code."""
        return INVALID_VALUE if self._libraries.pop(library, None) is None else 0

    def cuLibraryGetKernel(self, to: int, library: int, name: bytes) -> int:
        """Give the handle of a kernel."""
        module, symbol = self._libraries[library], name.decode()
        if symbol not in module.parameters:
            return NOT_FOUND
        handle = self._handle()
        self.kernels[handle] = (module, symbol)
        _put(to, handle, ctypes.c_void_p)
        return 0

    def cuLaunchKernel(self, kernel: int, *launch: int) -> int:
        """Enqueue a kernel; its parameters are read at once."""
        *shape, shared, _, parameters, extra = launch
        work = self._work_of(kernel, shape, shared, parameters, extra)
        if work is None:
            return INVALID_VALUE
        self.queue.append(work)
        return 0

    def _work_of(
        self, kernel: int, shape: Sequence[int], shared: int, parameters: int, extra: int
    ) -> Callable[[], None] | None:
        """Return what runs a kernel, None if no GPU takes it; its parameters are read now."""
        blocks, by_y, by_z, threads, y, z = shape
        if (by_y, by_z, y, z, shared or 0, extra or 0) != (1, 1, 1, 1, 0, 0):
            return None
        if not 0 < blocks < 1 << 31 or not 0 < threads <= MOST_THREADS:
            return None
        module, symbol = self.kernels[kernel]
        count = module.parameters[symbol]
        places = (ctypes.c_void_p * max(1, count)).from_address(parameters)
        values = [ctypes.c_int64.from_address(places[n] or 0).value for n in range(count)]
        return lambda: module.launch(symbol, values, (blocks, threads), self._choose)

    # ---- graphs

    def cuGraphCreate(self, to: int, flags: int) -> None:
        """Make an empty graph."""
        handle = self._handle()
        self.graphs[handle] = {}
        _put(to, handle, ctypes.c_void_p)

    def cuGraphAddKernelNode_v2(
        self, to: int, graph: int, before: int, count: int, parameters: int
    ) -> int:
        """Add a kernel to a graph; its parameters are read at once."""
        node = KernelNode.c_layout.structure.from_address(parameters)
        shape = [
            *(node.blocks, node.blocks_y, node.blocks_z),
            *(node.threads, node.threads_y, node.threads_z),
        ]
        if node.function or not node.context:
            return INVALID_VALUE
        arguments = (node.shared_bytes, node.parameters, node.extra)
        work = self._work_of(node.kernel, shape, *arguments)
        return self._add_node(to, graph, before, count, work)

    def cuGraphAddMemcpyNode(
        self, to: int, graph: int, before: int, count: int, parameters: int, context: int
    ) -> int:
        """Add a copy on the device, of a CUDA_MEMCPY3D."""
        words = (ctypes.c_uint64 * 25).from_address(parameters)
        source, target, size = words[6], words[17], words[22]
        used = {4: 2, 6: source, 9: size, 10: 1, 15: 2, 17: target, 20: size, 21: 1}
        used |= {22: size, 23: 1, 24: 1}
        if any(words[at] != used.get(at, 0) for at in range(25)) or not context:
            return INVALID_VALUE
        if not (self._is_live(target, size) and self._is_live(source, size)):
            return INVALID_VALUE
        return self._add_node(to, graph, before, count, lambda: _copy(target, source, size))

    def _add_node(
        self, to: int, graph: int, before: int, count: int, work: Callable[[], None] | None
    ) -> int:
        nodes = self.graphs.get(graph)
        earlier = list((ctypes.c_uint64 * count).from_address(before)) if count else []
        if nodes is None or work is None or any(node not in nodes for node in earlier):
            return INVALID_VALUE
        handle = self._handle()
        nodes[handle] = (earlier, work)
        _put(to, handle, ctypes.c_void_p)
        return 0

    def cuGraphInstantiateWithFlags(self, to: int, graph: int, flags: int) -> int:
        """Make a graph that can be launched."""
        if graph not in self.graphs or flags:
            return INVALID_VALUE
        handle = self._handle()
        self.executables[handle] = dict(self.graphs[graph])
        _put(to, handle, ctypes.c_void_p)
        return 0

    def cuGraphLaunch(self, executable: int, stream: int) -> int:
        """Enqueue the nodes of a graph, in any order that their edges allow."""
        nodes = self.executables.get(executable)
        if nodes is None:
            return INVALID_VALUE
        waiting, done = dict(nodes), set[int]()
        while waiting:
            ready = [node for node, (earlier, _) in waiting.items() if done.issuperset(earlier)]
            chosen = ready[int(self._choose.integers(len(ready)))]
            self.queue.append(waiting.pop(chosen)[1])
            done.add(chosen)
        return 0

    def cuGraphExecDestroy(self, executable: int) -> int:
        """Forget a graph that could be launched; what was enqueued runs all the same."""
        return INVALID_VALUE if self.executables.pop(executable, None) is None else 0

    def cuGraphDestroy(self, graph: int) -> int:
        """Forget a graph."""
        return INVALID_VALUE if self.graphs.pop(graph, None) is None else 0


def _copy(to: int, source: int | bytes, size: int) -> None:
    ctypes.memmove(to, source, size)


def _put(to: int, value: int, kind: Any) -> None:
    kind.from_address(to).value = value

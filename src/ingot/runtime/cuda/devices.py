# SPDX-License-Identifier: Apache-2.0
"""GPUs of this process: a context, a stream and a memory pool of each.

Everything on a device is enqueued on its one stream, so later work sees the results of earlier
work. Memory is allocated and freed on that stream too, from a pool that caches free memory.
Invariant: `enter` makes the device's context current in the calling thread before the driver is
called.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from functools import cache
from typing import Any

from ingot.runtime.cuda.driver import OUT_OF_MEMORY, Driver, driver
from ingot.runtime.cuda.records import CudaStream
from ingot.runtime.native import native_runtime
from ingot.runtime.records import RUNTIME, SharedMemory
from ingot.support.diagnostics import ArgumentError, IngotError, UnsupportedError
from ingot.support.flags import GPU_MEMORY_LIMIT
from ingot.support.forking import ForkLock

MAJOR, MINOR, MULTIPROCESSORS, MEMORY_POOLS, SHARES_MEMORY = 75, 76, 16, 115, 89
"""CUdevice_attribute."""

_RELEASE_THRESHOLD = 4
"""CU_MEMPOOL_ATTR_RELEASE_THRESHOLD."""
_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: not ordered with the default stream of other libraries."""
_NO_TIMING = 2
"""CU_EVENT_DISABLE_TIMING."""

_lock = ForkLock()


class _PoolProperties(ctypes.Structure):
    """CUmemPoolProps; `kind` and `location` are those of pinned memory of a device."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", ctypes.c_int),
        ("device", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("most_bytes", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class Device:
    """One GPU.

    Attributes:
        driver: the functions.
        number: its number, from 0.
        name: NVIDIA's name for it.
        capability: the compute capability, major and minor.
        memory: bytes of memory.
        multiprocessors: the number of its multiprocessors.
        stream: handle of its stream.
        generation: advanced when the device is reset; arrays of earlier generations are lost.
    """

    def __init__(self, functions: Driver, number: int) -> None:
        """Take the primary context of a device."""
        self.driver, self.number, self.generation = functions, number, 0
        self._handle = functions.number("cuDeviceGet", number)
        text = ctypes.create_string_buffer(256)
        functions.call("cuDeviceGetName", text, len(text), self._handle)
        self.name = text.value.decode()
        self.capability = self._attribute(MAJOR), self._attribute(MINOR)
        self.memory = functions.size("cuDeviceTotalMem_v2", self._handle)
        self.multiprocessors = self._attribute(MULTIPROCESSORS)
        if not self._attribute(MEMORY_POOLS):
            raise UnsupportedError(
                f"{self.name} has no memory pools",
                code="INGOT0324",
                hint="use a GPU and a driver with stream-ordered allocation",
            )
        self._start()

    def _attribute(self, number: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", number, self._handle)

    def _start(self) -> None:
        # Imported here: a process without a GPU needs none of the native functions for GPUs.
        from ingot.runtime.cuda.library import cuda_functions, stages_address

        functions = self.driver
        self._context = functions.handle("cuDevicePrimaryCtxRetain", self._handle)
        self.enter()
        self.stream = functions.handle("cuStreamCreate", _NON_BLOCKING)
        self._limit_memory()
        record: Any = CudaStream.c_layout.structure()
        record.driver = ctypes.addressof(functions.record)
        record.process = native_runtime().record
        record.context, record.handle = self._context, self.stream
        record.blocking = int(os.environ.get("CUDA_LAUNCH_BLOCKING", "0") == "1")
        self._record = record
        # The device has a copy of the runtime record that executions on the CPU have, with its
        # stream.
        runtime: Any = RUNTIME.structure()
        size = ctypes.sizeof(runtime)
        ctypes.memmove(ctypes.addressof(runtime), native_runtime().record, size)
        runtime.device, runtime.stages = ctypes.addressof(record), stages_address()
        self._runtime = runtime
        self._shared: Any = None
        if self._attribute(SHARES_MEMORY):
            self._shared = SharedMemory.c_layout.structure()
            fill = cuda_functions().function("ingot_cuda_shared_fill", None, *[ctypes.c_void_p] * 2)
            fill(ctypes.addressof(self._shared), ctypes.addressof(runtime))

    def _limit_memory(self) -> None:
        """Let the pool cache free memory, and refuse memory beyond the limit."""
        functions, limit = self.driver, GPU_MEMORY_LIMIT.value()
        if limit is None:
            pool = functions.handle("cuDeviceGetDefaultMemPool", self._handle)
        else:
            properties = _PoolProperties(1, 0, 1, self._handle, None, limit)
            pool = functions.handle("cuMemPoolCreate", ctypes.byref(properties))
            functions.call("cuDeviceSetMemPool", self._handle, pool)
        everything = ctypes.c_uint64((1 << 64) - 1)
        functions.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(everything))

    @property
    def runtime(self) -> int:
        """Address of the runtime record that executions on this device run with."""
        return ctypes.addressof(self._runtime)

    @property
    def shared_memory(self) -> int:
        """Address of its `IngotSharedMemory`; 0 if host and device cannot share any."""
        return ctypes.addressof(self._shared) if self._shared is not None else 0

    @property
    def stream_record(self) -> int:
        """Address of the record of its stream, `IngotCudaStream`."""
        return ctypes.addressof(self._record)

    @property
    def failure(self) -> tuple[int, int]:
        """The CUresult that ended the last execution that failed, and its site (-1: none)."""
        return int(self._record.failure), int(self._record.site)

    def failure_error(self, what: str) -> IngotError:
        """Return the exception for the last failed execution; `what` names the refused call."""
        return self.driver.error(self.failure[0], what)

    def enter(self) -> None:
        """Make the device's context current in this thread."""
        self.driver.call("cuCtxSetCurrent", self._context)

    def synchronize(self) -> None:
        """Wait until all enqueued work is done.

        Raises:
            CudaError: INGOT0526, some of it failed.
        """
        self.enter()
        self.driver.call("cuStreamSynchronize", self.stream)

    def is_done(self) -> bool:
        """Wait until all enqueued work is done; return whether none of it failed."""
        current = self.driver.result("cuCtxSetCurrent", self._context)
        return current == self.driver.result("cuStreamSynchronize", self.stream) == 0

    def free_memory(self) -> int:
        """Return the bytes that the device has left, without those that the pool caches."""
        self.enter()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size: int) -> Memory:
        """Return `size` bytes of new memory of the device, for work that is enqueued later.

        Raises:
            ResourceError: INGOT0401, there is none.
        """
        self.enter()
        address = ctypes.c_void_p()
        result = self.driver.result(
            "cuMemAllocAsync", ctypes.byref(address), max(1, size), self.stream
        )
        if result == OUT_OF_MEMORY:
            note = f"{size} bytes, of which {self.free_memory()} are free of {self.memory}"
            raise self.driver.error(result, "cuMemAllocAsync", notes=(note,))
        if result:
            raise self.driver.error(result, "cuMemAllocAsync")
        return Memory(self, address.value or 0, size)

    def free(self, address: int, generation: int) -> None:
        """Free memory after all enqueued work; memory of an earlier generation is gone already."""
        if (
            generation == self.generation
            and self.driver.result("cuCtxSetCurrent", self._context) == 0
        ):
            self.driver.result("cuMemFreeAsync", address, self.stream)

    def write(self, address: int, source: int, size: int) -> None:
        """Enqueue a copy of host memory to the device; it may be changed once this returns."""
        if size:
            self.enter()
            self.driver.call("cuMemcpyHtoDAsync_v2", address, source, size, self.stream)

    def read(self, to: int, address: int, size: int) -> None:
        """Copy to host memory, when all enqueued work is done."""
        if size:
            self.enter()
            self.driver.call("cuMemcpyDtoHAsync_v2", to, address, size, self.stream)
        self.synchronize()

    def copy(self, to: int, source: int, size: int) -> None:
        """Enqueue a copy from one address of the device to another."""
        if size:
            self.enter()
            self.driver.call("cuMemcpyDtoDAsync_v2", to, source, size, self.stream)

    def let_wait(self, other: int) -> None:
        """Let another stream of this device wait for the work enqueued on ours so far."""
        if other == self.stream:
            return
        self.enter()
        event = self.driver.handle("cuEventCreate", _NO_TIMING)
        self.driver.call("cuEventRecord", event, self.stream)
        self.driver.call("cuStreamWaitEvent", other, event, 0)
        self.driver.call("cuEventDestroy_v2", event)

    def reset(self) -> None:
        """Reset the device after an error that broke its context; its arrays are lost."""
        self.generation += 1
        self.driver.call("cuDevicePrimaryCtxReset_v2", self._handle)
        self._start()

    def __repr__(self) -> str:
        return f"gpu:{self.number} ({self.name})"


class Memory:
    """Memory of a device, freed when it is collected.

    Attributes:
        device: the GPU.
        address: the address of its first byte.
        size: its bytes.
    """

    __slots__ = ("__weakref__", "address", "device", "generation", "size")

    def __init__(self, device: Device, address: int, size: int) -> None:
        """Own memory that was allocated."""
        self.device, self.address, self.size = device, address, size
        self.generation = device.generation
        weakref.finalize(self, device.free, address, self.generation)


@cache
def _known(functions: Driver, number: int) -> Device:
    return Device(functions, number)


def device_count() -> int:
    """Return how many GPUs there are.

    Raises:
        UnsupportedError: INGOT0324, there is no driver.
    """
    return driver().number("cuDeviceGetCount")


def device(number: int = 0) -> Device:
    """Return a GPU by its number.

    Raises:
        UnsupportedError: INGOT0324, there is no driver.
        ArgumentError: INGOT0513, there is no such GPU.
    """
    with _lock:
        count = device_count()
        if not 0 <= number < count:
            there = f"there are {count}, numbered from 0" if count else "this machine has none"
            raise ArgumentError(f"there is no GPU {number}: {there}")
        return _known(driver(), number)

# SPDX-License-Identifier: Apache-2.0
"""Memory that the GPU and the host can both use (managed memory), as native functions.

Its pages are where they were last used. So values that only programs of the GPU use stay there, and
the host reads them without an explicit copy.

Source: NVIDIA, CUDA Programming Guide, Unified Memory: devices with concurrent managed access.
"""

from __future__ import annotations

from ingot.native.functions import exported
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.cuda.native import stream_of
from ingot.runtime.records import Runtime, SharedMemory

_ATTACH_GLOBAL = 1
"""CU_MEM_ATTACH_GLOBAL: all streams may use it."""
_IS_MANAGED = 8
"""CU_POINTER_ATTRIBUTE_IS_MANAGED."""


@exported("ingot_cuda_shared_allocate")
def shared_allocate(runtime: Runtime, size: i64) -> Pointer | None:
    """Return memory that the device and the host can use; null if there is none."""
    stream = stream_of(runtime)
    made = Array[Pointer | None].on_stack(1)
    made[0] = None
    if stream.driver.set_context(stream.context) != 0:
        return None
    if stream.driver.allocate_shared(made, size, _ATTACH_GLOBAL) != 0:
        return None
    return made[0]


@exported("ingot_cuda_shared_free")
def shared_free(data: Pointer | None, size: i64, argument: Pointer | None) -> None:
    """Free such memory, when the work that uses it is done."""
    runtime = Runtime.at(argument)
    if data is None or runtime is None:
        return
    stream = stream_of(runtime)
    if stream.driver.set_context(stream.context) == 0:
        stream.driver.free_shared(data)


@exported("ingot_cuda_shared_holds")
def shared_holds(runtime: Runtime, data: Pointer | None) -> i32:
    """Return 1 if memory is of this kind, else 0; the device's context must be current."""
    if data is None:
        return 0
    word = Array[i64].on_stack(1)
    word[0] = 0
    result = stream_of(runtime).driver.pointer_attribute(word, _IS_MANAGED, data)
    if result == 0 and i32(word[0]) != 0:
        return 1
    return 0


@exported("ingot_cuda_shared_fill")
def shared_fill(shared: SharedMemory, runtime: Runtime) -> None:
    """Fill the record of a device."""
    shared.runtime = runtime
    shared.allocate = shared_allocate
    shared.free = shared_free
    shared.holds = shared_holds

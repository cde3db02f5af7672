# SPDX-License-Identifier: Apache-2.0
"""Runs a GPU kernel on a device, by the C API of the CUDA driver: no package is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from tests.gpu.simt import widths_of

from ingot.gpu.compiler import CompiledKernel, Launch
from ingot.hlo.dim import evaluate


@cache
def _driver() -> Any:
    """Return the driver with a context on device 0 that is current in this thread."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _checked(driver.cuInit(0))
    _checked(driver.cuDeviceGet(ctypes.byref(device), 0))
    _checked(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _checked(driver.cuCtxSetCurrent(context))
    return driver


def _checked(status: int) -> None:
    assert status == 0, f"the CUDA driver returned {status}"


def run(
    compiled: CompiledKernel, buffers: Sequence[np.ndarray], sizes: Mapping[str, int]
) -> list[np.ndarray]:
    """Return the contents of all buffers after the kernel."""
    driver = _driver()
    kernel, module = compiled.kernel, ctypes.c_void_p()
    _checked(driver.cuModuleLoadData(ctypes.byref(module), compiled.ptx.encode() + b"\0"))
    scratch = [np.zeros(evaluate(each.size, sizes), each.dtype.storage) for each in kernel.scratch]
    addresses = [_copied(driver, held) for held in (*buffers, *scratch)]
    values = [*addresses, *(sizes[each] for each in kernel.sizes)]
    for launch in kernel.launches:
        for width in widths_of(launch, sizes):
            _launch(driver, module, launch, evaluate(launch.blocks, sizes), [*values, *width])
    _checked(driver.cuCtxSynchronize())
    found = [
        _back(driver, address, held) for address, held in zip(addresses, buffers, strict=False)
    ]
    _checked(driver.cuModuleUnload(module))
    return found


def _launch(driver: Any, module: Any, launch: Launch, blocks: int, values: list[int]) -> None:
    function, held = ctypes.c_void_p(), [ctypes.c_uint64(value) for value in values]
    name = launch.symbol.encode()
    _checked(driver.cuModuleGetFunction(ctypes.byref(function), module, name))
    parameters = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    if blocks:
        grid = (blocks, 1, 1, launch.threads, 1, 1)
        _checked(driver.cuLaunchKernel(function, *grid, 0, None, parameters, None))


def _copied(driver: Any, held: np.ndarray) -> int:
    """Return the address of a copy on the device."""
    address = ctypes.c_uint64()
    _checked(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(1, held.nbytes))))
    data = np.ascontiguousarray(held)
    size = ctypes.c_size_t(data.nbytes)
    if data.nbytes:
        _checked(driver.cuMemcpyHtoD_v2(address, ctypes.c_void_p(data.ctypes.data), size))
    return address.value


def _back(driver: Any, address: int, held: np.ndarray) -> np.ndarray:
    """Return what the device has at an address, whose memory is freed."""
    found = np.empty_like(held, order="C")
    size = ctypes.c_size_t(found.nbytes)
    if found.nbytes:
        to = ctypes.c_void_p(found.ctypes.data)
        _checked(driver.cuMemcpyDtoH_v2(to, ctypes.c_uint64(address), size))
    _checked(driver.cuMemFree_v2(ctypes.c_uint64(address)))
    return found

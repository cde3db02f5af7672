# SPDX-License-Identifier: Apache-2.0
"""Runs a GPU kernel alone on a device, by the runtime's driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np
from tests.gpu.simt import widths_of

from ingot.gpu.compiler import CompiledKernel
from ingot.hlo.dim import evaluate
from ingot.runtime.cuda.arrays import DeviceArray, new_array, to_device
from ingot.runtime.cuda.devices import Device, device


def run(
    compiled: CompiledKernel, buffers: Sequence[np.ndarray], sizes: Mapping[str, int]
) -> list[np.ndarray]:
    """Return the contents of all buffers after the kernel."""
    gpu, kernel = device(), compiled.kernel
    gpu.enter()
    code = compiled.ptx.encode() + b"\0"
    library = gpu.driver.handle("cuLibraryLoadData", code, None, None, 0, None, None, 0)
    memory = [to_device(gpu, held) for held in buffers]
    memory += [
        new_array(gpu, (evaluate(each.size, sizes),), each.dtype.numpy) for each in kernel.scratch
    ]
    values = [*(array.address for array in memory), *(sizes[each] for each in kernel.sizes)]
    for launch in kernel.launches:
        handle = gpu.driver.handle("cuLibraryGetKernel", library, launch.symbol.encode())
        grid = (evaluate(launch.blocks, sizes), launch.threads)
        for width in widths_of(launch, sizes):
            _launch(gpu, handle, grid, [*values, *width])
    found = [_contents(array) for array in memory[: len(buffers)]]
    gpu.driver.call("cuLibraryUnload", library)
    return found


def _launch(gpu: Device, kernel: int, grid: tuple[int, int], values: list[int]) -> None:
    held = [ctypes.c_uint64(value) for value in values]
    parameters = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    blocks, threads = grid
    if blocks:
        sides = (blocks, 1, 1, threads, 1, 1)
        gpu.driver.call("cuLaunchKernel", kernel, *sides, 0, gpu.stream, parameters, None)


def _contents(array: DeviceArray) -> np.ndarray:
    return np.asarray(array)

# SPDX-License-Identifier: Apache-2.0
"""`CudaProgram`: a compiled program on one GPU that can be called.

A call copies arguments that are not on the device yet, allocates the results, and enqueues the
program; it waits only where the program itself must (a loop's condition, foreign code). Invariant:
enqueued work never reads freed memory, since memory is allocated and freed in stream order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ingot.artifact.artifact import Artifact
from ingot.artifact.device_code import (
    DEVICE_FAILED,
    IMPORTS,
    KERNEL_TABLE,
    DeviceCode,
    transfers_symbol,
)
from ingot.hlo.dtype import dtype
from ingot.llvm.linking import link_object
from ingot.runtime.arguments.convert import AnyArray, donated_indices, require_count
from ingot.runtime.cuda.arguments import on_device, release, unshared
from ingot.runtime.cuda.arrays import DeviceArray, new_array
from ingot.runtime.cuda.devices import Device
from ingot.runtime.cuda.library import cuda_functions
from ingot.runtime.foreign.link import link_calls
from ingot.runtime.programs.execution import python_half, raise_signal_after, status_error
from ingot.runtime.programs.program import tables_of
from ingot.runtime.records import PROGRAM
from ingot.support.diagnostics import IngotError


class CudaProgram:
    """A program that is loaded on a device.

    Attributes:
        info: its parameters, results and messages.
        device: the GPU.
    """

    def __init__(
        self, artifact: Artifact, device: Device, site_text: Callable[[int], str] = str
    ) -> None:
        """Load the kernels, link the host program, copy the constants.

        Args:
            artifact: the program.
            device: the GPU.
            site_text: returns the text that messages have for a site of the host program.

        Raises:
            CudaError: INGOT0526, the driver refuses the code.
            ResourceError: INGOT0401, the device has no memory for the constants.
        """
        assert artifact.device is not None, "it was compiled for a GPU"
        assert isinstance(artifact.host, bytes), "host programs of GPUs are machine code"
        self.info, self.device, self._site_text = artifact.info, device, site_text
        self._half = python_half()
        functions = cuda_functions()
        table = _LoadedKernels(device, artifact.device)
        calls, owners = link_calls(artifact.calls)
        imports = {name: functions.address(name) for name in IMPORTS}
        imports[KERNEL_TABLE] = table.address
        self._library = link_object([artifact.host], imports | calls, (table, functions, owners))
        self._execute = functions.function(
            "ingot_cuda_execute", ctypes.c_int32, *[ctypes.c_void_p] * 5
        )
        self._constants = device.allocate(len(artifact.constants))
        device.write(self._constants.address, _address(artifact.constants), len(artifact.constants))
        self._record = self._recorded()

    def _recorded(self) -> Any:
        info, record = self.info, PROGRAM.structure()
        params, outputs, kept = tables_of(info)
        record.sizes = self._library.address(info.sizes_symbol)
        record.run = self._library.address(info.run_symbol)
        record.constants, record.runtime = self._constants.address, self.device.runtime
        record.num_params, record.num_outputs = len(info.params), len(info.outputs)
        record.num_symbols, record.num_sizes = info.num_symbols, info.num_sizes
        record.params, record.outputs = ctypes.addressof(params), ctypes.addressof(outputs)
        record.info, record.kept = info, (params, outputs, kept)
        return record

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Any:
        """Enqueue the program; return its results, one as it is, several as a tuple.

        Args:
            args: arrays of the device, of the host, or of another library on the device.
            donate: indices of arguments whose memory results may take.

        Raises:
            ExecutionError: an argument does not fit, a check failed; INGOT0526 the device failed.
            ResourceError: out of memory.
        """
        require_count(self.info, args)
        given = donated_indices(len(args), donate)
        arrays = on_device(self.device, args, self.info.params)
        sizes = self._half.sizes(self._record, arrays)
        taken = unshared(arrays, given)
        results = [
            self._result(index, sizes, arrays, taken) for index in range(len(self.info.outputs))
        ]
        status = self._execute(
            ctypes.addressof(self._record),
            self.device.runtime,
            _addresses(arrays),
            _addresses(results),
            (ctypes.c_int64 * len(sizes))(*sizes),
        )
        if status:
            raise_signal_after(status)
            raise self.error_of(status, arrays)
        release(self.device, args, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _result(
        self,
        index: int,
        sizes: Sequence[int],
        arrays: Sequence[DeviceArray],
        taken: Collection[int],
    ) -> DeviceArray:
        output, layout = self.info.outputs[index], self.info.sizes_layout
        at = layout.output_dims(index)
        shape, storage = tuple(sizes[at : at + len(output.dims)]), dtype(output.dtype).numpy
        alias = output.alias_param
        if alias is not None and alias in taken:
            held = arrays[alias]
            return DeviceArray(self.device, held.address, shape, storage, held.taken())
        return new_array(self.device, shape, storage)

    @property
    def record_address(self) -> int:
        """The address of the program's `IngotProgram`, for native callers."""
        return ctypes.addressof(self._record)

    @property
    def transfers_address(self) -> int:
        """The address of its `S_transfers`."""
        return self._library.address(transfers_symbol(self.info.symbol))

    def error_of(self, status: int, arrays: Sequence[AnyArray] = ()) -> IngotError:
        """Return the exception for the status of an execution."""
        if status != DEVICE_FAILED:
            return status_error(self.info, status, arrays)
        _, site = self.device.failure
        what = self._site_text(site) if site >= 0 else f"'{self.info.symbol}'"
        return self.device.failure_error(what)

    def __repr__(self) -> str:
        params, outputs = len(self.info.params), len(self.info.outputs)
        return f"CudaProgram({params} parameters, {outputs} outputs, {self.device})"


class _LoadedKernels:
    """The kernels of a program in the driver, and the table of their handles.

    Handles belong to no context, so one table serves all devices.
    """

    def __init__(self, device: Device, code: DeviceCode) -> None:
        device.enter()
        self._device = device
        text = code.ptx.encode() + b"\0"
        options = (None, None, 0, None, None, 0)
        self._library = device.driver.handle("cuLibraryLoadData", text, *options)
        self._table = (ctypes.c_void_p * max(1, len(code.kernels)))()
        for number, name in enumerate(code.kernels):
            handle = device.driver.handle("cuLibraryGetKernel", self._library, name.encode())
            self._table[number] = handle
        self.address = ctypes.addressof(self._table)

    def __del__(self) -> None:
        if getattr(self, "_library", 0) and self._device.is_done():
            self._device.driver.result("cuLibraryUnload", self._library)


def _addresses(arrays: Sequence[DeviceArray]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.address for array in arrays))


def _address(data: bytes) -> int:
    """Return the address of bytes, which must outlive their readers."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0

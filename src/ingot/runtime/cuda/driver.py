# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver: its functions, typed, and exceptions for its errors.

`driver()` loads `libcuda.so.1` on first use. Invariant: no function is called that `PROTOTYPES`
does not list; a CUresult that is not 0 becomes an exception.

Source: NVIDIA, CUDA Driver API, version 12; the suffixes are those of cuda.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from ingot.runtime.cuda.records import CudaDriver
from ingot.support.diagnostics import ExecutionError, IngotError, ResourceError, UnsupportedError
from ingot.support.flags import CUDA_LIBRARY

LEAST_VERSION = 12000
"""The oldest driver: since CUDA 12, kernels belong to no context (cuLibraryLoadData)."""

OUT_OF_MEMORY, NO_DEVICE, INVALID_PTX, NO_KERNEL_IMAGE, UNSUPPORTED_PTX = 2, 100, 218, 209, 222
ILLEGAL_ADDRESS, LAUNCH_FAILED = 700, 719
BROKEN = frozenset({ILLEGAL_ADDRESS, 702, 709, 714, 715, 716, 717, 718, LAUNCH_FAILED, 999})
"""Errors after which a context refuses everything."""

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_WORD, _ADDRESS, _TEXT = ctypes.c_uint, ctypes.c_uint64, ctypes.c_char_p

PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    "cuInit": (_WORD,),
    "cuDriverGetVersion": (_POINTER,),
    "cuGetErrorName": (_INT, _POINTER),
    "cuGetErrorString": (_INT, _POINTER),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDeviceTotalMem_v2": (_POINTER, _INT),
    "cuDeviceSetMemPool": (_INT, _POINTER),
    "cuDeviceGetDefaultMemPool": (_POINTER, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuDevicePrimaryCtxReset_v2": (_INT,),
    "cuCtxSetCurrent": (_POINTER,),
    "cuMemGetInfo_v2": (_POINTER, _POINTER),
    "cuMemPoolCreate": (_POINTER, _POINTER),
    "cuMemPoolSetAttribute": (_POINTER, _INT, _POINTER),
    "cuMemAllocAsync": (_POINTER, _SIZE, _POINTER),
    "cuMemFreeAsync": (_ADDRESS, _POINTER),
    "cuMemAllocManaged": (_POINTER, _SIZE, _WORD),
    "cuMemFree_v2": (_ADDRESS,),
    "cuPointerGetAttribute": (_POINTER, _INT, _ADDRESS),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _POINTER, _SIZE, _POINTER),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _ADDRESS, _SIZE, _POINTER),
    "cuMemcpyDtoDAsync_v2": (_ADDRESS, _ADDRESS, _SIZE, _POINTER),
    "cuStreamCreate": (_POINTER, _WORD),
    "cuStreamSynchronize": (_POINTER,),
    "cuStreamWaitEvent": (_POINTER, _POINTER, _WORD),
    "cuEventCreate": (_POINTER, _WORD),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventDestroy_v2": (_POINTER,),
    "cuLibraryLoadData": (
        *(_POINTER, _TEXT, _POINTER, _POINTER, _WORD, _POINTER, _POINTER, _WORD),
    ),
    "cuLibraryUnload": (_POINTER,),
    "cuLibraryGetKernel": (_POINTER, _POINTER, _TEXT),
    "cuLaunchKernel": (
        *(_POINTER, _WORD, _WORD, _WORD, _WORD, _WORD, _WORD, _WORD),
        *(_POINTER, _POINTER, _POINTER),
    ),
    "cuGraphCreate": (_POINTER, _WORD),
    "cuGraphAddKernelNode_v2": (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER),
    "cuGraphAddMemcpyNode": (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER),
    "cuGraphInstantiateWithFlags": (_POINTER, _POINTER, _ADDRESS),
    "cuGraphLaunch": (_POINTER, _POINTER),
    "cuGraphExecDestroy": (_POINTER,),
    "cuGraphDestroy": (_POINTER,),
}
"""The parameters of each function that is used; all return a CUresult."""

_NATIVE = {
    "set_context": "cuCtxSetCurrent",
    "launch": "cuLaunchKernel",
    "copy_to_device": "cuMemcpyHtoDAsync_v2",
    "copy_to_host": "cuMemcpyDtoHAsync_v2",
    "copy_on_device": "cuMemcpyDtoDAsync_v2",
    "synchronize": "cuStreamSynchronize",
    "allocate": "cuMemAllocAsync",
    "free": "cuMemFreeAsync",
    "allocate_shared": "cuMemAllocManaged",
    "free_shared": "cuMemFree_v2",
    "pointer_attribute": "cuPointerGetAttribute",
    "graph_create": "cuGraphCreate",
    "graph_add_kernel": "cuGraphAddKernelNode_v2",
    "graph_add_copy": "cuGraphAddMemcpyNode",
    "graph_instantiate": "cuGraphInstantiateWithFlags",
    "graph_launch": "cuGraphLaunch",
    "graph_exec_destroy": "cuGraphExecDestroy",
    "graph_destroy": "cuGraphDestroy",
}


class Functions(Protocol):
    """A source of the functions: `ctypes.CDLL`."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a function for ctypes; AttributeError if there is none."""
        ...


class CudaError(ExecutionError):
    """The driver refused something.

    Attributes:
        result: the CUresult.
        name: its name, CUDA_ERROR_...
    """

    result: int = 0
    name: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether the context refuses everything from now on."""
        return self.result in BROKEN


class Driver:
    """The functions of a driver; `driver()` returns the process's only one."""

    def __init__(self, functions: Functions) -> None:
        """Bind the functions and initialize the driver.

        Raises:
            UnsupportedError: INGOT0324, it is too old.
            CudaError: INGOT0526, it cannot be initialized.
        """
        self._functions: dict[str, Any] = {}
        for name, types in PROTOTYPES.items():
            try:
                function = functions[name]
            except AttributeError as error:
                raise _too_old(f"it has no {name}") from error
            function.argtypes, function.restype = types, _INT
            self._functions[name] = function
        self.call("cuInit", 0)
        self.version = self.number("cuDriverGetVersion")
        if self.version < LEAST_VERSION:
            raise _too_old(f"it is for CUDA {self.release}")
        self.record: Any = CudaDriver.c_layout.structure()
        for field, name in _NATIVE.items():
            address = ctypes.cast(self._functions[name], _POINTER).value
            setattr(self.record, field, address)

    @property
    def release(self) -> str:
        """The version of CUDA that the driver is for: "12.4"."""
        major, minor = divmod(self.version, 1000)
        return f"{major}.{minor // 10}"

    def result(self, name: str, *args: Any) -> int:
        """Call a function; return its CUresult."""
        return int(self._functions[name](*args))

    def call(self, name: str, *args: Any) -> None:
        """Call a function.

        Raises:
            CudaError: INGOT0526.
            ResourceError: INGOT0401, the device has no memory.
        """
        found = self.result(name, *args)
        if found:
            raise self.error(found, name)

    def number(self, name: str, *args: Any) -> int:
        """Return the int that a function stores at its first argument."""
        value = _INT()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def size(self, name: str, *args: Any) -> int:
        """Return the size that a function stores at its first argument."""
        value = _SIZE()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def handle(self, name: str, *args: Any) -> int:
        """Return the handle or address that a function stores at its first argument."""
        value = _POINTER()
        self.call(name, ctypes.byref(value), *args)
        return value.value or 0

    def error(self, result: int, what: str, *, notes: tuple[str, ...] = ()) -> IngotError:
        """Return the exception for a CUresult; `what` names the call that was refused."""
        name, text = self._text("cuGetErrorName", result), self._text("cuGetErrorString", result)
        if result == OUT_OF_MEMORY:
            return ResourceError(
                f"the GPU is out of memory: {what} returned {name}",
                code="INGOT0401",
                notes=notes,
                hint="use smaller sizes, or free arrays of earlier calls",
            )
        error = CudaError(
            f"{what}: {name or result} ({text})", code="INGOT0526", notes=notes, hint=_hint(result)
        )
        error.result, error.name = result, name
        return error

    def _text(self, name: str, result: int) -> str:
        text = ctypes.c_char_p()
        self.result(name, result, ctypes.byref(text))
        return (text.value or b"").decode()


def _hint(result: int) -> str:
    if result in BROKEN:
        return (
            "set CUDA_LAUNCH_BLOCKING=1 to see which kernel it was; "
            "arrays of this GPU are lost, ingot.reset_gpu() starts it anew"
        )
    if result in (INVALID_PTX, NO_KERNEL_IMAGE, UNSUPPORTED_PTX):
        return "this driver is too old for the code, or the GPU is not supported"
    return ""


def _too_old(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"the CUDA driver is too old: {what}",
        code="INGOT0324",
        hint="install a driver for CUDA 12 or newer (525.60 on Linux)",
    )


@cache
def driver() -> Driver:
    """Return the driver of this process.

    Raises:
        UnsupportedError: INGOT0324, there is none, or it is too old.
        CudaError: INGOT0526, it cannot be initialized.
    """
    name = CUDA_LIBRARY.value()
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise UnsupportedError(
            f"there is no CUDA driver: {name} cannot be loaded ({error})",
            code="INGOT0324",
            hint="install NVIDIA's driver, or set INGOT_CUDA_LIBRARY to its libcuda.so.1",
        ) from error
    return Driver(library)

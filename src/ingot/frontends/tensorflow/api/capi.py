# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's C API as Ingot uses it: where the symbols are and what they take.

Knows library names and signatures; `series` knows the mangled names that differ. Machine code links
to these addresses (`imports`), Python calls a few of them through ctypes (`function`). The
TensorFlow libraries are in the process already; loading them by soname finds the loaded ones.

Invariant: a symbol that TensorFlow lacks is an UnsupportedError that names it, never a crash.
Source: TensorFlow's `tensorflow/c/{c_api,kernels,ops,eager/c_api}.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ingot.frontends.tensorflow.api import series
from ingot.support.diagnostics import InternalError, UnsupportedError

FRAMEWORK = "libtensorflow_framework.so.2"
CORE = "libtensorflow_cc.so.2"
PYTHON = "lib_pywrap_tensorflow_common.so"

POINTER = ctypes.c_void_p
TEXT = ctypes.c_char_p
INT = ctypes.c_int

CANCELLED = 1
OK = 0
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
INTERNAL = 13

EAGER_TENSOR_HANDLE = "_Z18EagerTensor_HandlePK7_object"
EAGER_TENSOR_FROM_HANDLE = "_Z21EagerTensorFromHandleP16TFE_TensorHandleb"

INIT_GRAPH_PLUGIN = (
    "_ZN10tensorflow8grappler15InitGraphPluginEPFvP30TP_OptimizerRegistrationParamsP10TSL_StatusE"
)

_EAGER_NAMES = (EAGER_TENSOR_HANDLE, EAGER_TENSOR_FROM_HANDLE)

_LIST = (POINTER, POINTER, INT, POINTER, ctypes.c_size_t, POINTER)
"""Where a list of strings is put: texts, lengths, count, storage, its size, status."""

_CORE_NAMES = (
    "TFE_",
    "_ZN10tensorflow14LookupResource",
    "_ZN10tensorflow8grappler",
    "TF_NewBuffer",
    "TF_DeleteBuffer",
    "TF_GetNodesToPreserve",
    "TF_GetFetchNodes",
    "TF_NewGraphProperties",
    "TF_DeleteGraphProperties",
    "TF_InferStatically",
    "TF_GetOutputProperties",
)
"""How names begin that the core library exports, and not the framework's."""

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "TF_NewStatus": (POINTER,),
    "TF_DeleteStatus": (None, POINTER),
    "TF_GetCode": (INT, POINTER),
    "TF_Message": (TEXT, POINTER),
    "TF_SetStatus": (None, POINTER, INT, TEXT),
    "TF_NumDims": (INT, POINTER),
    "TF_Dim": (ctypes.c_int64, POINTER, INT),
    "TF_NewOpDefinitionBuilder": (POINTER, TEXT),
    "TF_OpDefinitionBuilderAddAttr": (None, POINTER, TEXT),
    "TF_OpDefinitionBuilderAddInput": (None, POINTER, TEXT),
    "TF_OpDefinitionBuilderAddOutput": (None, POINTER, TEXT),
    "TF_OpDefinitionBuilderSetIsStateful": (None, POINTER, ctypes.c_bool),
    "TF_OpDefinitionBuilderSetShapeInferenceFunction": (None, POINTER, POINTER),
    "TF_RegisterOpDefinition": (None, POINTER, POINTER),
    "TF_NewKernelBuilder": (POINTER, TEXT, TEXT, POINTER, POINTER, POINTER),
    "TF_RegisterKernelBuilder": (None, TEXT, POINTER, POINTER),
    "TFE_TensorHandleDevicePointer": (POINTER, POINTER, POINTER),
    EAGER_TENSOR_HANDLE: (POINTER, ctypes.py_object),
    INIT_GRAPH_PLUGIN: (None, POINTER, POINTER),
    "TF_NewBuffer": (POINTER,),
    "TF_DeleteBuffer": (None, POINTER),
    "TF_GetNodesToPreserveListSize": (None, POINTER, POINTER, POINTER, POINTER),
    "TF_GetNodesToPreserveList": (None, POINTER, *_LIST),
    "TF_GetFetchNodesListSize": (None, POINTER, POINTER, POINTER, POINTER),
    "TF_GetFetchNodesList": (None, POINTER, *_LIST),
    "TF_NewGraphProperties": (POINTER, POINTER),
    "TF_DeleteGraphProperties": (None, POINTER),
    "TF_InferStatically": (None, POINTER, *[ctypes.c_uint8] * 4, POINTER),
    "TF_GetOutputPropertiesListSize": (None, POINTER, TEXT, POINTER, POINTER),
    "TF_GetOutputPropertiesList": (None, POINTER, TEXT, POINTER, INT, POINTER),
}
"""Functions that Python calls: result type, then parameter types."""


@lru_cache
def _library(name: str) -> Any:
    try:
        return (ctypes.PyDLL if name == PYTHON else ctypes.CDLL)(name)
    except OSError as error:
        raise UnsupportedError(
            f"cannot reach TensorFlow's library {name}: {error}",
            code="INGOT0313",
            hint=f"{series.INSTALL} for Linux, and import it before ingot.tensorflow",
        ) from None


def _symbol(name: str) -> Any:
    tested = series.current()
    name = name if tested is None else tested.mangled().get(name, name)
    if name in _EAGER_NAMES:
        library = PYTHON
    else:
        library = CORE if name.startswith(_CORE_NAMES) else FRAMEWORK
    found = getattr(_library(library), name, None)
    if found is None:
        raise UnsupportedError(
            f"this TensorFlow does not export '{name}'", code="INGOT0313", hint=series.INSTALL
        )
    return found


def address(name: str) -> int:
    """Return the address of a function of TensorFlow's C API."""
    return ctypes.cast(_symbol(name), POINTER).value or 0


def exports(name: str) -> bool:
    """Whether this TensorFlow exports a function."""
    try:
        return address(name) != 0
    except UnsupportedError:
        return False


def data_address(name: str) -> int:
    """Return the address of a data symbol of TensorFlow's framework library."""
    return ctypes.addressof(ctypes.c_void_p.in_dll(_library(FRAMEWORK), name))


def imports(names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of `names`, as `llvm.linking.link_object` wants them."""
    return {name: address(name) for name in names}


@lru_cache
def function(name: str) -> Callable[..., Any]:
    """Return a function of `SIGNATURES` for use from Python."""
    result, *params = SIGNATURES[name]
    prototype = ctypes.PYFUNCTYPE if name in _EAGER_NAMES else ctypes.CFUNCTYPE
    return prototype(result, *params)(address(name))


class Status:
    """A TF_Status that is deleted with its `with` block; `check` raises what it holds."""

    __slots__ = ("pointer",)

    def __enter__(self) -> Status:
        """Make the TF_Status."""
        self.pointer: int = function("TF_NewStatus")()
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the TF_Status."""
        function("TF_DeleteStatus")(self.pointer)

    def check(self, action: str) -> None:
        """Raise InternalError if TensorFlow refused `action`."""
        if function("TF_GetCode")(self.pointer):
            text = function("TF_Message")(self.pointer).decode()
            raise InternalError(f"TensorFlow refused to {action}: {text}")

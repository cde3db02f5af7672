# SPDX-License-Identifier: Apache-2.0
"""Registration of the launch ops with TensorFlow, once per process.

`IngotLaunch` is for functions without effects (TensorFlow may drop or share it), and
`IngotLaunchStateful` for those that must run; `Ingot_XlaRun` is for clusters. All have the same
kernel, which is machine code. `Ingot_XlaCompile` says whether a cluster has a program for its
inputs; it is stateful, because the answer changes. What looks for `_XlaCompile` and `_XlaRun` in
traces and profiles finds these.

Invariant: registered ops and kernels cannot be unregistered, so `register` does its work only
once, and what it registers stays valid until the process ends.
"""

from __future__ import annotations

import ctypes
import secrets
from functools import partial

from ingot.frontends.tensorflow.api import capi, kernel_api, variable_objects
from ingot.frontends.tensorflow.api.kernel_api import PACKAGES
from ingot.frontends.tensorflow.graphs.variable_access import layout_problem
from ingot.frontends.tensorflow.launches.launch import trampoline_addresses
from ingot.frontends.tensorflow.launches.launch_records import PROCESS
from ingot.llvm.linking import Library, link_object
from ingot.native.functions import external_symbols
from ingot.native.module import compiled
from ingot.runtime import entries
from ingot.runtime.native import native_runtime
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.lazy import function_at_home

LAUNCH_OP = "IngotLaunch"
STATEFUL_LAUNCH_OP = "IngotLaunchStateful"
CLUSTER_LAUNCH_OP = "Ingot_XlaRun"
READY_OP = "Ingot_XlaCompile"

_process_mark = ctypes.c_int64(secrets.randbits(62))
PROCESS_MARK = _process_mark.value
"""Value of the `process` attribute of this process's ops."""

_launch_functions = function_at_home(
    "ingot.frontends.tensorflow.launches.launch_code", "launch_functions"
)
"""Native functions; a process that finds their object does not import them."""

_lock = ForkLock()
_libraries: list[Library] = []


@defers_fork
def register() -> None:
    """Register both ops and their CPU kernels, if that was not done yet."""
    with _lock:
        if _libraries:
            return
        library = _build()
        _register_op(LAUNCH_OP, ("Tout: list(type) >= 0",), "outputs: Tout", False, library)
        _register_op(STATEFUL_LAUNCH_OP, ("Tout: list(type) >= 0",), "outputs: Tout", True, library)
        _register_op(CLUSTER_LAUNCH_OP, ("Tout: list(type) >= 0",), "outputs: Tout", False, library)
        _register_op(READY_OP, (), "ready: bool", True, library)
        for name in (LAUNCH_OP, STATEFUL_LAUNCH_OP, CLUSTER_LAUNCH_OP):
            _register_kernel(name, "ingot_launch_compute", library)
        _register_kernel(READY_OP, "ingot_ready_compute", library)
        _libraries.append(library)


def _build() -> Library:
    with_variables = layout_problem() is None
    runtime = native_runtime()
    addresses = {
        **capi.imports(external_symbols(kernel_api)),
        **(capi.imports(external_symbols(variable_objects)) if with_variables else {}),
        **{name: runtime.address(name) for name in external_symbols(entries)},
        **trampoline_addresses(),
        PROCESS: ctypes.addressof(_process_mark),
    }
    name = f"ingot_tensorflow_launch_{int(with_variables)}"
    data = compiled(name, PACKAGES, partial(_launch_functions, with_variables))
    library = link_object([data], addresses)
    # Never unloaded, not even when the interpreter ends: TensorFlow's threads may stand in it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library


def _register_op(
    name: str, more: tuple[str, ...], output: str, stateful: bool, library: Library
) -> None:
    builder = capi.function("TF_NewOpDefinitionBuilder")(name.encode())
    for attribute in ("Tin: list(type) >= 0", *more, "process: int", "launch: int"):
        capi.function("TF_OpDefinitionBuilderAddAttr")(builder, attribute.encode())
    capi.function("TF_OpDefinitionBuilderAddInput")(builder, b"inputs: Tin")
    capi.function("TF_OpDefinitionBuilderAddOutput")(builder, output.encode())
    capi.function("TF_OpDefinitionBuilderSetIsStateful")(builder, stateful)
    capi.function("TF_OpDefinitionBuilderSetShapeInferenceFunction")(
        builder, library.address("ingot_launch_shape")
    )
    with capi.Status() as status:
        capi.function("TF_RegisterOpDefinition")(builder, status.pointer)
        status.check(f"register the op {name}")


def _register_kernel(name: str, compute: str, library: Library) -> None:
    names = ("ingot_launch_create", compute, "ingot_launch_delete")
    functions = [library.address(item) for item in names]
    builder = capi.function("TF_NewKernelBuilder")(name.encode(), b"CPU", *functions)
    with capi.Status() as status:
        capi.function("TF_RegisterKernelBuilder")(name.encode(), builder, status.pointer)
        status.check(f"register the kernel of {name}")

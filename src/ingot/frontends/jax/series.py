# SPDX-License-Identifier: Apache-2.0
"""The release series of JAX that the front end is tested with, and the names that it needs in JAX.

`registration.register` checks them before it changes anything: a JAX that lacks a name that Ingot
replaces or calls is not changed, with an error that names it; for an untested series there is one
warning, and it works if every name exists. `make test-jax JAX=0.10` runs the tests on a series.

JAX 0.9 is not one of them. Its programs run, but jaxlib 0.9 writes executables in another format,
so `compilation` cannot pass programs to it, and each is compiled by JAX's longer path.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from typing import Any

from ingot.support.diagnostics import UnsupportedError

_logger = logging.getLogger("ingot.jax")

TESTED = ("0.10",)
INSTALL = f"install JAX {' or '.join(TESTED)}: pip install 'ingot-compiler[jax]'"
"""The hint for a JAX that lacks something."""

RELIED_ON = (
    ("jax._src.xla_bridge", "register_backend_factory"),
    ("jax._src.xla_bridge", "make_pjrt_c_api_client"),
    ("jax._src.interpreters.mlir", "_platform_specific_lowerings"),
    ("jax._src.xla_bridge", "_alias_to_platforms"),
    ("jax._src.xla_bridge", "_profiler.register_plugin_profiler"),
    ("jax._src.xla_bridge", "num_cpu_devices.value"),
    ("jax._src.xla_bridge", "_CPU_ENABLE_ASYNC_DISPATCH.value"),
    ("jax._src.lib", "xla_client.load_pjrt_plugin_with_c_api"),
    ("jax._src.lib", "xla_client.make_c_api_device_topology"),
    ("jax._src.lib", "xla_client.register_custom_call_handler"),
    ("jax._src.lib", "_jax.JaxRuntimeError"),
    ("jax._src.lib", "_jax.dlpack_managed_tensor_to_buffer"),
    ("jax._src.lib.mlir", "ir"),
    ("jaxlib._jax", "register_custom_call_target"),
    ("jax._src.compiler", "backend_compile_and_load"),
    ("jax._src.traceback_util", "register_exclusion"),
    ("jax._src.interpreters.pxla", "MeshComputation.cost_analysis"),
    ("jax._src.interpreters.mlir", "register_lowering"),
    ("jax._src.core", "is_constant_shape"),
    ("jax._src.lax.lax", "_ragged_dot_general_impl"),
    ("jax._src.lax.lax", "composite"),
    ("jax._src.custom_partitioning", "_custom_partitioning_partition"),
    ("jax._src.custom_partitioning", "_sharding_callbacks"),
)
"""Module of JAX and what Ingot replaces or calls in it, checked before anything is changed."""


def check() -> None:
    """Check that this JAX has the names that Ingot needs; warn once if its series is not tested.

    Raises:
        UnsupportedError: INGOT0314, a module or name is not there.
    """
    _tell_if_untested()
    for module, path in RELIED_ON:
        if not _has(module, path):
            raise UnsupportedError(
                f"this JAX ({_version()}) has no '{module}.{path}', which Ingot replaces or calls",
                code="INGOT0314",
                hint=INSTALL,
            )


def _has(module: str, path: str) -> bool:
    try:
        found: Any = importlib.import_module(module)
    except ImportError:
        return False
    for name in path.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True


def _version() -> str:
    return str(importlib.import_module("jax").__version__)


@cache
def _tell_if_untested() -> None:
    version = _version()
    if ".".join(version.split(".")[:2]) not in TESTED:
        _logger.warning(
            "Ingot is tested with JAX %s, and this is %s: what it relies on may have changed. "
            "If something is wrong, %s",
            " and ".join(TESTED),
            version,
            INSTALL,
        )

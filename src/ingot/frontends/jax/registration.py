# SPDX-License-Identifier: Apache-2.0
"""Ingot as a platform of JAX: the backend factory, and the names under which it is known.

The backend is registered as `ingot`, and its devices have the platform `cpu`: so JAX uses its CPU
lowerings, donation, host callbacks, DLPack and the compilation cache unchanged. Invariant: Ingot is
the default only on request; after JAX's own `cpu` it comes last.

Source: jax/_src/xla_bridge.py (register_plugin, backends).
"""

from __future__ import annotations

import ctypes
import importlib
from functools import partial
from typing import Any

from ingot.client.pjrt.objects import CPU, CUDA
from ingot.client.pjrt.plugin import api_address
from ingot.client.pjrt.preparations import before_compiling
from ingot.frontends.jax import series
from ingot.frontends.jax.compilation import install_compilation
from ingot.frontends.jax.costs import install_costs
from ingot.frontends.jax.dlpack import install_dlpack
from ingot.frontends.jax.ffi import install_handlers
from ingot.frontends.jax.lowerings import install_lowerings
from ingot.frontends.jax.platforms import NAME, platforms
from ingot.support import flags
from ingot.support.xla_flags import current_xla_flags

_PRIORITY = -50
"""Below JAX's own cpu (0)."""


def _bridge() -> Any:
    from jax._src import xla_bridge

    return xla_bridge


def device_options() -> dict[str, int | bool | str]:
    """Return the options of the client, which are those of JAX's own CPU."""
    bridge = _bridge()
    wanted = int(bridge.num_cpu_devices.value)
    default = current_xla_flags().force_host_platform_device_count
    coordinator = importlib.import_module("jax._src.distributed").global_state.coordinator_address
    collectives = importlib.import_module("jax").config.jax_cpu_collectives_implementation
    return {
        **({"coordinator_address": coordinator} if coordinator else {}),
        **({"collectives": collectives} if collectives else {}),
        "num_devices": wanted if wanted >= 0 else default,
        "asynchronous": bool(bridge._CPU_ENABLE_ASYNC_DISPATCH.value),
    }


def register() -> None:
    """Register the backend.

    Raises:
        UnsupportedError: INGOT0314, this JAX lacks something that Ingot replaces or calls. JAX is
            unchanged then.
    """
    series.check()
    client: Any = importlib.import_module("jax._src.lib").xla_client
    bridge, capsule = _bridge(), _capsule()
    # jaxlib always gets the name `cpu` for the plugin, by which lowering rules are chosen.
    client.load_pjrt_plugin_with_c_api(CPU, capsule)
    bridge._profiler.register_plugin_profiler(capsule)
    alone = CPU not in platforms()
    bridge.register_backend_factory(
        CPU if alone else NAME,
        partial(bridge.make_pjrt_c_api_client, CPU, options=device_options),
        priority=_PRIORITY,
        fail_quietly=False,
        make_topology=partial(client.make_c_api_device_topology, capsule),
        c_api=capsule,
    )
    if alone:
        # There is no other CPU: `jax.devices("cpu")` and `jax.devices("ingot")` are the same.
        bridge._alias_to_platforms[NAME] = [CPU]
        if flags.GPU.value():
            _register_gpus(capsule)
        install_lowerings(CPU)
    before_compiling(_install_for_the_compiler)
    install_compilation()
    install_dlpack()
    install_costs()
    install_handlers()


def _register_gpus(capsule: Any) -> None:
    """Register GPUs as the platform `cuda`, which comes before the CPU.

    Ops that JAX lowers to calls of NVIDIA's libraries are lowered as on the CPU, whose libraries
    Ingot calls on the host.
    """
    client: Any = importlib.import_module("jax._src.lib").xla_client
    lowerings = importlib.import_module("jax._src.interpreters.mlir")._platform_specific_lowerings
    bridge = _bridge()
    client.load_pjrt_plugin_with_c_api(CUDA, capsule)
    bridge.register_backend_factory(
        CUDA,
        partial(bridge.make_pjrt_c_api_client, CUDA, options={"platform": CUDA}),
        priority=-_PRIORITY,
        fail_quietly=False,
        c_api=capsule,
    )
    lowerings[CUDA] = dict(lowerings[CPU])
    bridge._alias_to_platforms[NAME] = [CUDA, CPU]


def _install_for_the_compiler() -> None:
    """Install what the compiler asks for, and nobody who finds compiled programs."""
    from ingot.frontends.jax.callbacks import install_callbacks
    from ingot.frontends.jax.partitioning import install_partitioning

    install_partitioning()
    install_callbacks()


def _capsule() -> Any:
    """Return the function table as jaxlib takes it."""
    types = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *types)(("PyCapsule_New", ctypes.pythonapi))
    return make(api_address(), b"pjrt_c_api", None)

"""Platforms: what a module can run on, each as a function from a module to a program.

`cpu` is Ingot's native code, `evaluator` the meaning of every op in NumPy, `xla` real XLA's CPU
client where JAX is installed. A program takes one value per entry parameter, tuples nested, and
returns the leaves of the result.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.client.compile import compile
from ingot.evaluator import Value, evaluate
from ingot.formats.hlo_text import print_module
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.support.diagnostics import UnsupportedError

Program = Callable[[Sequence[Value]], list[Array]]


def flat(value: Any) -> list[Array]:
    """Return the leaves of nested tuples."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flat(item)]  # pyright: ignore[reportUnknownVariableType]
    return [np.asarray(value)]


def _cpu(module: Module) -> Program:
    executable = compile(module)
    return lambda values: flat(executable(*(leaf for value in values for leaf in flat(value))))


def _evaluator(module: Module) -> Program:
    return lambda values: flat(evaluate(module, values))


def _xla(module: Module) -> Program:
    """Return a program of real XLA: HLO text, XLA's parser, StableHLO, XLA's CPU client."""
    missing = [name for name in ("jax", "jaxlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"real XLA is run by {missing[0]}, which is not installed",
            code="INGOT0302",
            hint="pip install 'ingot[jax]', or leave --platform=xla out",
        )
    jax, xla_client, backends, extension = (
        importlib.import_module(name)
        for name in ("jax", "jaxlib.xla_client", "jax.extend.backend", "jaxlib._jax")
    )
    parsed = xla_client.hlo.hlo_module_from_text(print_module(module))
    stablehlo = extension.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
    options = xla_client.CompileOptions()
    # Else XLA keeps bf16 and f16 intermediates in f32, and no two programs round alike.
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    client = backends.get_backend("cpu")
    device = client.devices()[0]
    executable = client.compile_and_load(stablehlo, extension.DeviceList((device,)), options)

    def run(values: Sequence[Value]) -> list[Array]:
        leaves = [leaf for value in values for leaf in flat(value)]
        with jax.enable_x64(True):
            buffers = [jax.device_put(leaf, device) for leaf in leaves]
            results = executable.execute_sharded(buffers)
            return [
                np.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()
            ]

    return run


PLATFORMS: dict[str, Callable[[Module], Program]] = {
    "cpu": _cpu,
    "evaluator": _evaluator,
    "xla": _xla,
}
NONE = "none"
"""The reference platform that compares with nothing."""

# SPDX-License-Identifier: Apache-2.0
"""Platforms: what a module can run on, each as a function from a module to a program.

`cpu` is Ingot's native code, `evaluator` the reference interpreter in NumPy, `xla` real XLA's CPU
client, if JAX is installed. A program takes one row of values per device (replica, then
partition), each a value per entry parameter, tuples nested, and returns the leaves of the results.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.client.compile import compile
from ingot.evaluator import Value, evaluate
from ingot.evaluator.replicated import evaluate_replicated
from ingot.formats.hlo_text import print_module
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.semantics.device_groups import Grid, grid_of
from ingot.support.diagnostics import UnsupportedError

Rows = Sequence[Sequence[Value]]
Program = Callable[[Rows], list[Array]]


def flat(value: Any) -> list[Array]:
    """Return the leaves of nested tuples."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flat(item)]  # pyright: ignore[reportUnknownVariableType]
    return [np.asarray(value)]


def _flat_rows(rows: Rows) -> list[list[Array]]:
    return [[leaf for value in row for leaf in flat(value)] for row in rows]


def cpu_program(module: Module, context: PassContext | None = None) -> Program:
    """Return a module as native code; `context` has the options of the passes."""
    executable = compile(module, context=context)
    if grid_of(module).devices > 1:
        return lambda rows: flat(tuple(executable.execute_replicated(_flat_rows(rows))))
    return lambda rows: flat(executable(*_flat_rows(rows)[0]))


def _evaluator(module: Module) -> Program:
    if grid_of(module).devices > 1:
        return lambda rows: flat(tuple(evaluate_replicated(module, rows)))
    return lambda rows: flat(evaluate(module, rows[0]))


def _xla(module: Module) -> Program:
    """Return a program of real XLA: HLO text, XLA's parser, StableHLO, XLA's CPU client."""
    missing = [name for name in ("jax", "jaxlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"real XLA is run by {missing[0]}, which is not installed",
            code="INGOT0302",
            hint="pip install 'ingot-compiler[jax]', or leave --platform=xla out",
        )
    grid = grid_of(module)
    _ask_for_devices(grid.devices)
    jax, xla_client, backends, extension = (
        importlib.import_module(name)
        for name in ("jax", "jaxlib.xla_client", "jax.extend.backend", "jaxlib._jax")
    )
    text = print_module(module if grid.partitions == 1 else _said_manual(module))
    parsed = xla_client.hlo.hlo_module_from_text(text)
    stablehlo = extension.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
    client = backends.get_backend("cpu")
    devices = tuple(client.local_devices()[: grid.devices])
    if len(devices) < grid.devices:
        raise UnsupportedError(
            f"XLA has {len(devices)} devices here, the program runs on {grid.devices}",
            code="INGOT0302",
            hint=f"set XLA_FLAGS={_COUNT}={grid.devices}",
        )
    options = _compile_options(xla_client, grid)
    executable = client.compile_and_load(stablehlo, extension.DeviceList(devices), options)

    def run(rows: Rows) -> list[Array]:
        with jax.enable_x64(True):
            arguments = _spread(jax, _flat_rows(rows), devices)
            leaves = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
            return [np.asarray(leaf[n]) for n in range(len(devices)) for leaf in leaves]

    return run


def _said_manual(module: Module) -> Module:
    """Return a copy that is marked as the program of one partition, as XLA requires."""
    made = module.clone()
    for instruction in made.entry.instructions:
        leaves = ["{manual}" for _ in instruction.shape.leaves()]
        text = f"{{{', '.join(leaves)}}}" if instruction.shape.is_tuple else "{manual}"
        instruction.extra = {**instruction.extra, "sharding": text}
    return made


_COUNT = "--xla_force_host_platform_device_count"


def _ask_for_devices(count: int) -> None:
    """Let XLA's CPU client, which is made once, have at least `count` devices."""
    given = os.environ.get("XLA_FLAGS", "")
    if count > 1 and _COUNT not in given:
        os.environ["XLA_FLAGS"] = f"{given} {_COUNT}={count}".strip()


def _compile_options(xla_client: Any, grid: Grid) -> Any:
    options = xla_client.CompileOptions()
    # Otherwise XLA keeps bf16 and f16 intermediates in f32, and programs round differently.
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    options.num_replicas, options.num_partitions = grid.replicas, grid.partitions
    options.executable_build_options.use_spmd_partitioning = grid.partitions > 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(grid.devices).reshape(grid.replicas, grid.partitions)
    )
    return options


def _spread(jax: Any, rows: list[list[Array]], devices: Sequence[Any]) -> list[Any]:
    """Return each argument as an array with one part on every device."""
    if len(devices) == 1:
        return [jax.device_put(leaf, devices[0]) for leaf in rows[0]]
    mesh = jax.sharding.Mesh(np.array(devices), "d")
    divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    found: list[Any] = []
    for leaves in zip(*rows, strict=True):
        # The runtime uses the parts only; a scalar gets a dimension to be divided along.
        parts = [np.asarray(leaf).reshape(leaf.shape or (1,)) for leaf in leaves]
        parts_on_devices = [
            jax.device_put(part, at) for part, at in zip(parts, devices, strict=True)
        ]
        shape = (len(devices) * parts[0].shape[0], *parts[0].shape[1:])
        found.append(jax.make_array_from_single_device_arrays(shape, divided, parts_on_devices))
    return found


PLATFORMS: dict[str, Callable[[Module], Program]] = {
    "cpu": cpu_program,
    "evaluator": _evaluator,
    "xla": _xla,
}
NONE = "none"
"""The name of the reference platform for no comparison."""

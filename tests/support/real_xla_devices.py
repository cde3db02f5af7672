# SPDX-License-Identifier: Apache-2.0
"""Real XLA on several devices of one process: a program of its own, which fixes their number.

It reads pickled (HLO text, inputs per parameter and device, grid) from standard input, one after
the other, and writes the pickled outputs per device and leaf, or XLA's error as text.
`XlaOnDevices` starts it once and asks it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ingot.semantics.device_groups import Grid

DEVICES = 4
Array = np.ndarray[Any, Any]
Outcome = list[list[Array]] | str


class XlaOnDevices:
    """The program, running; it ends when this process does."""

    def __init__(self) -> None:
        """Start the program."""
        flags = f"--xla_force_host_platform_device_count={DEVICES}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.real_xla_devices"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
            cwd=Path(__file__).parents[2],
        )

    @staticmethod
    @cache
    def running() -> XlaOnDevices:
        """Return the one of this process."""
        return XlaOnDevices()

    def run(self, text: str, inputs: list[list[Array]], grid: Grid) -> list[list[Array]]:
        """Return the leaves of each device; RuntimeError with XLA's words when it refuses."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps((text, inputs, grid)))
        process.stdin.flush()
        outcome: Outcome = pickle.load(process.stdout)
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        return outcome


def _run(text: str, inputs: list[list[Array]], grid: Grid) -> list[list[Array]]:
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import _jax, xla_client

    assert grid.devices == DEVICES, grid
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = grid.replicas, grid.partitions
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(DEVICES).reshape(grid.replicas, grid.partitions)
    )
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    # The text is the program of one partition: all of it says `sharding={manual}`.
    options.executable_build_options.use_spmd_partitioning = grid.partitions > 1
    client = get_backend("cpu")
    devices = client.local_devices()
    parsed = xla_client.hlo.hlo_module_from_text(text)
    program = _jax.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
    executable = client.compile_and_load(program, _jax.DeviceList(tuple(devices)), options)
    mesh = jax.sharding.Mesh(np.array(devices), "d")
    divided = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    with jax.enable_x64(True):
        arguments = []
        for row in inputs:
            parts = [jax.device_put(part, at) for part, at in zip(row, devices, strict=True)]
            shape = (DEVICES * row[0].shape[0], *row[0].shape[1:])
            arguments.append(jax.make_array_from_single_device_arrays(shape, divided, parts))
        leaves = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        return [[np.asarray(leaf[number]) for leaf in leaves] for number in range(DEVICES)]


def main() -> None:
    """Answer until standard input ends."""
    while True:
        try:
            text, inputs, grid = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            outcome: Outcome = _run(text, inputs, grid)
        except Exception as error:  # XLA's own; the test tells what may be
            outcome = str(error).splitlines()[0]
        sys.stdout.buffer.write(pickle.dumps(outcome))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

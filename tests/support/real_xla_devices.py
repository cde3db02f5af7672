"""Real XLA on several devices of one process: a program of its own, which fixes their number.

Reads a pickled list of (HLO text, inputs per parameter and device) from standard input and writes
the pickled list of (outputs per device and leaf, or XLA's error as text) to standard output.
`run_on_devices` starts it and waits.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

DEVICES = 4
Array = np.ndarray[Any, Any]
Outcome = list[list[Array]] | str


def run_on_devices(cases: Sequence[tuple[str, list[list[Array]]]]) -> list[Outcome]:
    """Return what real XLA gives for each case on each of `DEVICES` replicas."""
    flags = f"--xla_force_host_platform_device_count={DEVICES}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    found = subprocess.run(
        [sys.executable, "-m", "tests.support.real_xla_devices"],
        input=pickle.dumps(cases),
        capture_output=True,
        check=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    outcomes: list[Outcome] = pickle.loads(found.stdout)
    return outcomes


def _run(text: str, inputs: list[list[Array]]) -> list[list[Array]]:
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import _jax, xla_client

    options = xla_client.CompileOptions()
    options.num_replicas = DEVICES
    options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(DEVICES).reshape(DEVICES, 1)
    )
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
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
    """Run the cases of standard input."""
    outcomes: list[Outcome] = []
    for text, inputs in pickle.load(sys.stdin.buffer):
        try:
            outcomes.append(_run(text, inputs))
        except Exception as error:  # XLA's own; the test tells what may be
            outcomes.append(str(error).splitlines()[0])
    sys.stdout.buffer.write(pickle.dumps(outcomes))


if __name__ == "__main__":
    main()

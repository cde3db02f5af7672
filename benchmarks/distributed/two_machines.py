# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.distributed.two_machines`: a training step divided over a slow network.

The machines are network namespaces of this one, joined by a link of 1 Gbit/s (`tc`'s token bucket),
with names, processes and a CPU each of their own: data goes through TCP. The step is data-parallel,
so that its gradients are summed over the link. Needs root, `ip` and `tc`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from statistics import median

from benchmarks.common.programs import Timing
from benchmarks.common.report import as_text, duration, factor

ENGINES = {
    "Ingot": ("ingot", ""),
    "Ingot, nothing hidden": ("ingot", "--xla_disable_hlo_passes=latency-hiding-scheduler"),
    "XLA, Gloo": ("cpu", ""),
}
"""JAX's platform, and XLA_FLAGS."""
ADDRESSES = ("10.77.0.1", "10.77.0.2")
RATE = "1gbit"
LAYERS, WIDTH, ROWS = 6, 512, 1024
STEPS, WARM = 25, 5
EXPLANATION = f"""\
Two network namespaces joined by a link of 1 Gbit/s, one process on one CPU in each: a data-parallel
training step of {LAYERS} layers of {WIDTH} features on {ROWS} rows per machine, f32. A time is the
median over the turns of the median step; a ratio is the median of each turn's."""


def can_run() -> bool:
    """Whether this process may make network namespaces."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "unshare", "mount")))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def machines() -> Generator[list[list[str]]]:
    """Join two namespaces; give what a command in each begins with."""
    names = [f"ingot{os.getpid()}{side}" for side in "ab"]
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
        lines = [f"{address} {name}" for address, name in zip(ADDRESSES, names, strict=True)]
        hosts.write("\n".join(["127.0.0.1 localhost", *lines, ""]))
        hosts.flush()
        try:
            for name in names:
                _ip("netns", "add", name)
            _ip("link", "add", "ends0", "netns", names[0], "type", "veth",
                "peer", "name", "ends1", "netns", names[1])  # fmt: skip
            for number, (name, address) in enumerate(zip(names, ADDRESSES, strict=True)):
                end, inside = f"ends{number}", ("netns", "exec", name)
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
                for device in (end, "lo"):
                    _ip("-n", name, "link", "set", device, "up")
                _ip(*inside, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", RATE,
                    "burst", "256kb", "latency", "100ms")  # fmt: skip
            yield [
                ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "--pid", "--fork",
                 "sh", "-c", f'hostname {name}; mount --bind {hosts.name} /etc/hosts; exec "$@"',
                 "sh"]
                for name in names
            ]  # fmt: skip
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def run(engine: str, commands: Sequence[Sequence[str]]) -> float:
    """Return the seconds of a step, as the first machine sees it."""
    platform, flags = ENGINES[engine]
    environment = {
        **os.environ, "JAX_PLATFORMS": platform, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "3"
    }  # fmt: skip
    worker = [sys.executable, "-m", "benchmarks.distributed.two_machines", "--machine"]
    running = [
        subprocess.Popen(
            [*command, *worker, str(number)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for number, command in enumerate(commands)
    ]
    output = [each.communicate()[0] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError(f"{engine} failed")
    return float(output[0].splitlines()[-1])


def measure(rounds: int) -> list[list[str]]:
    """Return the cells: each engine's time, and its ratio to the first one's."""
    found = {engine: Timing() for engine in ENGINES}
    with machines() as commands:
        for number in range(rounds):
            for engine, timing in found.items():
                print(f"turn {number + 1} of {rounds}: {engine}", flush=True)
                timing.seconds.append(run(engine, commands))
    ours, *others = found
    titles = [part for name in others for part in (name, f"{name} / {ours}")]
    line = ["training step", duration(found[ours].median)]
    for name in others:
        line += [duration(found[name].median), factor(found[ours].ratio(found[name]))]
    return [["program", ours, *titles], line]


def step_seconds(index: int) -> float:
    """Train on one of the machines; return the median seconds of a step."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[index]})
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    if os.environ["JAX_PLATFORMS"] == "cpu":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"{ADDRESSES[0]}:7777", len(ADDRESSES), index)
    mesh = jax.make_mesh((len(ADDRESSES),), ("data",))
    generator = np.random.default_rng(0)

    def on_all(shape: tuple[int, ...], scale: float, *axes: str) -> jax.Array:
        data = generator.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        placed = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.make_array_from_callback(shape, placed, lambda part: data[part])

    weights = [on_all((WIDTH, WIDTH), WIDTH**-0.5) for _ in range(LAYERS)]
    x = on_all((ROWS * len(ADDRESSES), WIDTH), 1.0, "data")

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        h = x
        for one in weights:
            h = jnp.tanh(h @ one) + h
        return (h * h).mean()

    @jax.jit
    def step(weights: list[jax.Array], x: jax.Array) -> list[jax.Array]:
        gradients = jax.grad(loss)(weights, x)
        return [one - 1e-3 * each for one, each in zip(weights, gradients, strict=True)]

    found: list[float] = []
    for _ in range(STEPS):
        start = time.perf_counter()
        weights = jax.block_until_ready(step(weights, x))
        found.append(time.perf_counter() - start)
    return median(found[WARM:])


def main() -> int:
    """Run, or be one of the machines."""
    if sys.argv[1:2] == ["--machine"]:
        print(step_seconds(int(sys.argv[2])), flush=True)
        return 0
    if not can_run():
        print("network namespaces need root, ip, tc, unshare and mount", file=sys.stderr)
        return 1
    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    print(f"\n{as_text(measure(rounds))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

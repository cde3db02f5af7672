# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.distributed.network_model`: times of collectives, predicted and measured.

Latency and bandwidth of this machine's devices, of one process and of several, are fitted to
all-gathers of two devices at three sizes. With that network `ingot.explain` predicts all other
collectives, sizes and numbers of devices. A call of a program whose devices send to themselves, on
as many devices, is what JAX's dispatch takes; it is added.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.common.report import PAGES, as_markdown, as_text, duration, geometric_mean, machine

RESULTS = PAGES / "NETWORK_MODEL.md"
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
FITTED = (4, 64, 1024)
PREDICTED = (1, 16, 256, 4096)
"""Kilobytes of one device's operand."""
DEVICES = (2, 4, 8)
SHARE = 0.1
"""Calls that are faster than the one that counts: in others a device waits for a CPU."""
PLACES = {"devices of one process": 1, "processes of one device": 0}
EXPLANATION = """\
Each row is a collective of f32; the size is that of one device's operand. Predicted is the step of
`ingot.explain` on the fitted network (formulas of `analysis.network`, kernels by the model of the
machine), and JAX's dispatch, measured on as many devices. More devices than CPUs take turns, so
that their prediction is multiplied by devices / CPUs. Measured is the fastest tenth of calls in the
best turn: in others a device waits for a CPU that something else has. The off column is
predicted / measured."""
Row = tuple[str, int]
"""A collective and kilobytes."""


def run(devices: int, processes: int) -> dict[Row, float]:
    """Measure in new processes; return the seconds of each row, of `nothing` too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = {**os.environ, "JAX_PLATFORMS": "ingot", "TF_CPP_MIN_LOG_LEVEL": "3"}
    worker = [sys.executable, "-m", "benchmarks.distributed.network_model", "--worker"]
    running = [
        subprocess.Popen(
            [*worker, f"{processes} {address} {index} {devices}"],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for index in range(processes)
    ]  # fmt: skip
    output = [each.communicate()[0] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError(f"{devices} devices of {processes} processes failed")
    found = json.loads(next(line for line in output[0].splitlines() if line.startswith("{")))
    return {(name, int(size)): value for key, value in found.items()
            for name, size in [key.rsplit(" ", 1)]}  # fmt: skip


def work(text: str) -> None:
    """Time everything in this process, which is one of several."""
    from benchmarks.distributed.device_worker import jax_calls, times

    processes, address, index, devices = text.split()
    make = jax_calls(int(processes), address, int(index), int(devices))
    sizes = sorted((*FITTED, *PREDICTED))
    found: dict[str, float] = {}
    for name in COLLECTIVES:
        # Dispatch again and again: it is short, and what it is compared with is not far longer.
        for row, size in (("nothing", 1), *((name, size) for size in sizes)):
            seconds = times(make(row, size << 10), size << 10, SHARE)
            key = f"{row} {size}"
            found[key] = min(seconds, found.get(key, seconds))
    if index == "0":
        print(json.dumps(found), flush=True)
    if int(processes) > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("end")


def fit(measured: Mapping[Row, float]) -> tuple[float, float]:
    """Return latency and bytes per second of all-gathers of two devices: one message each.

    Least squares of relative errors.
    """
    idle = measured["nothing", 1]
    points = [(size << 10, measured["all-gather", size] - idle) for size in FITTED]
    weights = [1 / max(seconds, 1e-7) ** 2 for _, seconds in points]
    total = sum(weights)
    mean_size = sum(w * size for w, (size, _) in zip(weights, points, strict=True)) / total
    mean_time = sum(w * time for w, (_, time) in zip(weights, points, strict=True)) / total
    slope = sum(
        w * (size - mean_size) * (time - mean_time)
        for w, (size, time) in zip(weights, points, strict=True)
    ) / sum(w * (size - mean_size) ** 2 for w, (size, _) in zip(weights, points, strict=True))
    return max(1e-7, mean_time - slope * mean_size), 1 / slope


def predict(row: Row, devices: int, channel: tuple[float, float]) -> float:
    """Return the seconds of a step by `ingot.explain`, without dispatch."""
    import jax
    import numpy as np
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

    import ingot
    from benchmarks.distributed.device_worker import on_mesh

    name, size = row
    mesh = AbstractMesh((devices,), ("x",))
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    x = jax.ShapeDtypeStruct((devices * (size << 10) // 4,), np.float32, sharding=sharding)
    lowered = on_mesh(name, mesh).trace(x).lower(lowering_platforms=("cpu",))
    latency, rate = channel
    text = f"{devices} devices, inside {latency * 1e6:.6f}us {rate / 1e9:.6f}GB/s, direct"
    (program,) = ingot.explain(lowered, network=text).programs
    assert program.step is not None
    turns = max(1.0, devices / len(os.sched_getaffinity(0)))
    return program.step.seconds * turns


def table(
    measured: Mapping[int, Mapping[Row, float]], channel: tuple[float, float]
) -> tuple[list[list[str]], str]:
    """Return the cells of one place, and a sentence on the error of predictions."""
    counts = sorted(measured)
    cells = [["collective"]]
    for count in counts:
        cells[0] += [f"{count}: predicted", "measured", "off"]
    off: dict[int, list[float]] = {count: [] for count in counts}
    for name in COLLECTIVES:
        for size in PREDICTED:
            line = [f"{name} {size} KB"]
            for count in counts:
                guess = measured[count]["nothing", 1] + predict((name, size), count, channel)
                seen = measured[count][name, size]
                off[count].append(guess / seen)
                line += [duration(guess), duration(seen), f"{guess / seen:.2f}"]
            cells.append(line)
    told = "; ".join(
        f"{count} devices: {geometric_mean(ratios):.2f} by geometric mean, off by a factor of "
        f"{math.exp(statistics.median(abs(math.log(ratio)) for ratio in ratios)):.2f} at the "
        f"median and {math.exp(max(abs(math.log(ratio)) for ratio in ratios)):.1f} at most"
        for count, ratios in off.items()
    )
    return cells, f"Predicted / measured, {told}."


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distributed.network_model", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns")
    parser.add_argument("--most", type=int, default=DEVICES[-1], help="devices at most")
    parser.add_argument("--processes", type=int, default=DEVICES[-1], help="processes at most")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return 0
    os.environ["JAX_PLATFORMS"] = "cpu"
    parts = ["# Collectives: predicted and measured", "Written by `make network-model`."]
    parts += ["\n".join(f"- {fact}" for fact in machine(("ingot-compiler", "jaxlib"))), EXPLANATION]
    counts = [count for count in DEVICES if count <= options.most]
    turns: dict[tuple[str, int], list[dict[Row, float]]] = {}
    for number in range(options.rounds):
        for place, together in PLACES.items():
            for count in counts:
                if (together or count) > options.processes:
                    continue
                print(f"turn {number + 1} of {options.rounds}: {count} {place}", flush=True)
                turns.setdefault((place, count), []).append(run(count, together or count))
    for place in PLACES:
        measured = {
            count: {row: min(turn[row] for turn in turns[place, count])
                    for row in turns[place, count][0]}
            for count in counts
            if (place, count) in turns
        }  # fmt: skip
        channel = fit(measured[2])
        cells, told = table(measured, channel)
        idle = ", ".join(f"{duration(row['nothing', 1])} on {n}" for n, row in measured.items())
        fitted = (
            f"Fitted: {channel[0] * 1e6:.3g} us and {channel[1] / 1e9:.3g} GB/s. "
            f"Dispatch: {idle}. {told}"
        )
        print(f"\n{place}\n{as_text(cells)}\n{fitted}\n", flush=True)
        parts += [f"## {place.capitalize()}", fitted, as_markdown(cells)]
    if options.write:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Compile cost per instruction: a chain and a wide graph of 1,000, 10,000 and 100,000 instructions.

Each module is compiled in a process of its own, with empty caches, so that memory can be measured
and no size helps another. Cost per instruction should be flat. Beside it stands real XLA, in turn:
its time is superlinear in the size of these graphs, so that it is stopped after a while. Programs
that many devices share follow (`sharded_scaling`); `--only` measures one of the two, and keeps the
page's other part.

Example:
    .venv/bin/python -m benchmarks.processes.compile_scaling --write
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.distributed import sharded_scaling

PAGE = Path(__file__).resolve().parents[1] / "SCALING.md"
SIZES = (1_000, 10_000, 100_000)
VECTOR = "f32[1000]"


def chain(count: int) -> str:
    """Return HLO text: each instruction takes the one before it."""
    ops = ("add", "multiply", "maximum", "subtract")
    lines = [f"  v0 = {VECTOR} parameter(0)", f"  w = {VECTOR} parameter(1)"]
    lines += [f"  v{n} = {VECTOR} {ops[n % 4]}(v{n - 1}, w)" for n in range(1, count)]
    return _module(lines, f"  ROOT r = {VECTOR} negate(v{count - 1})")


def wide(count: int) -> str:
    """Return HLO text: many short chains from one parameter, joined by a tree of sums."""
    lines = [f"  x = {VECTOR} parameter(0)", f"  w = {VECTOR} parameter(1)"]
    leaves = count // 4
    for n in range(leaves):
        lines.append(f"  row{n} = {VECTOR} broadcast(k{n}), dimensions={{}}")
        lines.insert(2, f"  k{n} = f32[] constant({n})")
        lines.append(f"  t{n} = {VECTOR} multiply(x, row{n})")
    level = [f"t{n}" for n in range(leaves)]
    while len(level) > 1:
        joined = []
        for left, right in zip(level[::2], level[1::2], strict=False):
            name = f"sum{len(lines)}"
            lines.append(f"  {name} = {VECTOR} add({left}, {right})")
            joined.append(name)
        level = joined + level[len(joined) * 2 :]
    return _module(lines, f"  ROOT r = {VECTOR} add({level[0]}, w)")


def layers(count: int) -> str:
    """Return HLO text: layers of a network, so that there are many kernels of several kinds."""
    lines = ["  x = f32[64,64] parameter(0)", "  w = f32[64,64] parameter(1)",
             "  zero = f32[] constant(0)",
             "  z = f32[64,64] broadcast(zero), dimensions={}"]  # fmt: skip
    value = "x"
    for n in range(count // 8):
        lines += [
            f"  d{n} = f32[64,64] dot({value}, w), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"  m{n} = f32[64,64] maximum(d{n}, z)",
            f"  a{n} = f32[64,64] add(m{n}, {value})",
            f"  sum{n} = f32[64] reduce(a{n}, zero), dimensions={{1}}, to_apply=sum",
            f"  b{n} = f32[64,64] broadcast(sum{n}), dimensions={{0}}",
            f"  q{n} = f32[64,64] subtract(a{n}, b{n})",
            f"  e{n} = f32[64,64] tanh(q{n})",
            f"  h{n} = f32[64,64] multiply(e{n}, a{n})",
        ]
        value = f"h{n}"
    reducer = (
        "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
    )
    return _module(lines, f"  ROOT r = f32[64,64] negate({value})", reducer)


def _module(lines: list[str], root: str, called: str = "") -> str:
    return "HloModule scaling\n" + called + "ENTRY main {\n" + "\n".join([*lines, root]) + "\n}\n"


GRAPHS: dict[str, Callable[[int], str]] = {"chain": chain, "wide": wide, "layers": layers}


def measure(graph: str, count: int) -> dict[str, object]:
    """Compile one module in this process; return seconds by phase and peak memory."""
    import ingot
    from ingot.client import clear_caches, load_library

    ingot.compile(ingot.parse_hlo(chain(3)))  # what the first compilation of a process loads
    clear_caches()
    load_library()
    text = GRAPHS[graph](count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The processor's time, of all threads: other work on the machine hardly changes it.
    start = time.process_time()
    began = time.perf_counter()
    module = ingot.parse_hlo(text)
    parsed = time.perf_counter() - began
    executable = ingot.compile(module)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    phases = executable.timer.root.children["compile"].children
    return {
        "graph": graph,
        "instructions": module.instruction_count,
        "seconds": seconds,
        "kilobytes": peak - before,
        "kernels": len(executable.kernels),
        "phases": {"parse": parsed, **{name: phase.seconds for name, phase in phases.items()}},
    }


def measure_xla(graph: str, count: int) -> dict[str, object]:
    """Compile one module with real XLA in this process; the time of its translators is left out."""
    from jax.extend.backend import get_backend
    from jaxlib import _jax, xla_client

    client = get_backend("cpu")
    devices = _jax.DeviceList(tuple(client.devices()[:1]))

    def compile_text(text: str) -> float:
        start = time.process_time()
        module = xla_client.hlo.hlo_module_from_text(text)
        parsed = time.process_time() - start
        program = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        start = time.process_time()
        client.compile_and_load(program, devices, xla_client.CompileOptions())
        return parsed + time.process_time() - start

    compile_text(chain(3))
    return {"seconds": compile_text(GRAPHS[graph](count))}


ENGINES = {"ingot": measure, "xla": measure_xla}


def measure_apart(engine: str, graph: str, count: int, limit: float) -> dict[str, object] | None:
    """Measure in a process of its own; None when it takes longer than `limit` seconds."""
    one = f"{engine}:{graph}:{count}"
    command = [sys.executable, "-m", "benchmarks.processes.compile_scaling", "--one", one]
    environment = {**os.environ, "INGOT_CACHE": "0", "JAX_PLATFORMS": "cpu"}
    try:
        output = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=limit, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(output.stdout)


def page(rows: list[dict[str, object]]) -> str:
    """Return the page."""
    text = [
        "# Compile cost by size",
        "",
        "Seconds of processor time from HLO text to a linked executable, empty caches, one process"
        " each (`make scaling`); phases in seconds of the clock. Flat columns per instruction mean"
        " linear cost. XLA is the same module compiled by jaxlib in the next process, from text"
        " and StableHLO; a number with > is where it was stopped.",
        "",
        "| graph | instructions | kernels | seconds | us per instruction | KiB per instruction |"
        " XLA seconds | XLA / Ingot | slowest phases |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        count, seconds = int(str(row["instructions"])), float(str(row["seconds"]))
        memory = float(str(row["kilobytes"])) / count
        phases: dict[str, float] = row["phases"]  # type: ignore[assignment]
        slowest = sorted(phases, key=lambda name: -phases[name])[:3]
        told = ", ".join(f"{name} {phases[name]:.2f}" for name in slowest)
        text.append(
            f"| {row['graph']} | {count:,} | {row['kernels']} | {seconds:.2f} |"
            f" {seconds / count * 1e6:.0f} | {memory:.1f} | {_beside(row, seconds)} | {told} |"
        )
    return "\n".join(text) + "\n"


def _xla_seconds(graph: str, size: int, limit: float) -> float | str | None:
    """Return XLA's time; None where it took too long, a word where it ended its process."""
    try:
        found = measure_apart("xla", graph, size, limit)
    except subprocess.CalledProcessError:
        return "aborts"
    return found and float(str(found["seconds"]))


def _beside(row: dict[str, object], seconds: float) -> str:
    """Return XLA's two cells of a row."""
    if row["xla"] is None:
        least = float(str(row["xla limit"]))
        return f"> {least:.0f} | > {least / seconds:.0f}"
    if isinstance(row["xla"], str):
        return f"{row['xla']} | "
    xla = float(str(row["xla"]))
    return f"{xla:.2f} | {xla / seconds:.1f}"


def main() -> int:
    """Measure all, or one; print, and write the page if asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--one", default="", help="ENGINE:GRAPH:COUNT, measured here, as JSON")
    options.add_argument("--most", type=int, default=SIZES[-1])
    options.add_argument("--limit", type=float, default=600.0, help="seconds per module")
    options.add_argument("--xla-limit", type=float, default=120.0, help="seconds per module of XLA")
    options.add_argument("--only", choices=("alone", "shared"), help="default: both")
    options.add_argument("--most-layers", type=int, default=sharded_scaling.LAYERS[-1])
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    if given.one:
        engine, graph, count = given.one.split(":")
        print(json.dumps(ENGINES[engine](graph, int(count))))
        return 0
    parts = PAGE.read_text(encoding="utf-8").split("\n## ", 1) if PAGE.exists() else [""]
    alone = parts[0].rstrip("\n")
    shared = "## " + parts[1].rstrip("\n") if len(parts) > 1 else ""
    if given.only != "shared":
        alone = page(_measured(given)).rstrip("\n")
    if given.only != "alone":
        shared = "\n".join(sharded_scaling.section(sharded_scaling.rows(given.most_layers)))
    if given.write:
        PAGE.write_text("\n\n".join(filter(None, (alone, shared))) + "\n", encoding="utf-8")
    return 0


def _measured(given: argparse.Namespace) -> list[dict[str, object]]:
    """Return the rows of programs of one device."""
    rows: list[dict[str, object]] = []
    for graph in GRAPHS:
        for size in (size for size in SIZES if size <= given.most):
            row = measure_apart("ingot", graph, size, given.limit)
            if row is None:
                break
            row |= {"xla": _xla_seconds(graph, size, given.xla_limit), "xla limit": given.xla_limit}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What the demo prints: tables and texts, readable with and without a terminal."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo_parts.measured import Facts, Kernel, Measured, Outcome
from ingot.support.text import format_bytes, format_seconds

WIDTH = 110
SUBJECTS = {
    "fused_reduce": "reduce_sum(x + y * z) over 1048576 numbers",
    "training_step": "a tf.function: 2 dense layers, cross-entropy, tape, Adam; digits, batch 100",
    "keras_mlp": "a Keras model: 3 dense layers, dropout, Adam, metrics; one step of fit, batch 64",
}
_METADATA = re.compile(r", (?:metadata|entry_computation_layout)=\{.*\}$", re.MULTILINE)


def make_console() -> Console:
    """Return a console as wide as the terminal, or `WIDTH` wide where there is none."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=WIDTH)


def machine() -> str:
    """Return what the numbers depend on, in one line."""
    name = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    cpus = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now():%Y-%m-%d %H:%M}, {name}, {cpus} CPUs, Python "
        f"{platform.python_version()}, TensorFlow {version('tensorflow')}, Keras {version('keras')}"
    )


def subjects() -> Table:
    """Return what the programs are."""
    made = Table(box=None, show_header=False, pad_edge=False)
    for name, text in SUBJECTS.items():
        made.add_row(f"[bold]{name}[/bold]", escape(text))
    return made


def without_metadata(hlo: str) -> str:
    """Return HLO text without what makes its lines long."""
    return _METADATA.sub("", hlo.strip())


def table(*columns: str, rows: Iterable[Iterable[str]]) -> Table:
    """Return a table: names at the left, numbers at the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        made.add_row(*row)
    return made


def compiled(facts: dict[str, Facts]) -> Table:
    """Return the table of what went in and what came out."""
    rows = [
        (
            name,
            str(fact.ops),
            str(fact.instructions),
            str(len(fact.kernels)),
            str(len(fact.copies)),
            f"{fact.flops:,}",
        )
        for name, fact in facts.items()
    ]
    columns = ("", "TF ops in", "HLO in", "kernels out", "copies out")
    return table(*columns, "operations per step", rows=rows)


def moved(facts: dict[str, Facts]) -> Table:
    """Return the table of the bytes that go through memory."""
    rows = [
        (
            name,
            format_bytes(fact.bytes_read),
            format_bytes(fact.bytes_written),
            format_bytes(fact.unfused_bytes),
            f"{fact.unfused_bytes / (fact.bytes_read + fact.bytes_written):.1f} x Ingot's",
        )
        for name, fact in facts.items()
    ]
    columns = ("moved per step", "read", "written", "op by op", "")
    return table(*columns, rows=rows)


def times(measured: dict[str, Measured]) -> Table:
    """Return the table of the time per step."""
    rows = [
        (
            name,
            format_seconds(median(item.steps["Ingot"])),
            _time_and_ratio(item, "TensorFlow"),
            _time_and_ratio(item, "XLA"),
        )
        for name, item in measured.items()
    ]
    columns = ("time per step", "Ingot", "not compiled", "TensorFlow's XLA")
    return table(*columns, rows=rows)


def _time_and_ratio(item: Measured, engine: str) -> str:
    ratio = item.ratio(engine)
    seconds = format_seconds(median(item.steps[engine]))
    return f"{seconds}  ({ratio:.2f} x)"


def compile_times(measured: dict[str, Measured]) -> Table:
    """Return the table of what compiling takes."""
    rows = [
        (
            name,
            format_seconds(item.compile_seconds("Ingot")),
            format_seconds(item.compile_seconds("XLA")),
            f"{item.compile_seconds('XLA') / item.compile_seconds('Ingot'):.1f} x Ingot's",
        )
        for name, item in measured.items()
    ]
    columns = ("first call, without tracing", "Ingot", "TensorFlow's XLA", "")
    return table(*columns, rows=rows)


def qualities(measured: dict[str, Measured]) -> Table:
    """Return the table of what was computed, and how equal it is to plain TensorFlow's."""
    rows: list[tuple[str, ...]] = []
    for name, item in measured.items():
        outcomes = item.outcomes
        what = "held-out accuracy" if outcomes["Ingot"].losses else "relative error"
        rows.append((f"{name}: {what}", *(_quality(outcomes[e]) for e in item.engines)))
        if outcomes["Ingot"].losses:
            rows.append((f"{name}: losses, 100 steps *", *_differences(item)))
            spent = (format_seconds(outcomes[engine].seconds) for engine in item.engines)
            rows.append((f"{name}: whole training", *spent))
    return table("", "Ingot", "not compiled", "TensorFlow's XLA", rows=rows)


def _quality(outcome: Outcome) -> str:
    return f"{outcome.quality:.4f}" if outcome.losses else f"{outcome.quality:.1e}"


def _differences(item: Measured) -> Iterable[str]:
    plain = item.outcomes["TensorFlow"].losses[:100]
    for engine in item.engines:
        pairs = zip(item.outcomes[engine].losses[:100], plain, strict=True)
        worst = max(abs(loss / expected - 1) for loss, expected in pairs)
        yield "-" if engine == "TensorFlow" else f"within {worst:.1e}"


def kernels(rows: tuple[Kernel, ...]) -> Table:
    """Return the table of a program's kernels."""
    made = table("kernel", "read", "written", rows=())
    made.columns[0].ratio = 1
    made.columns[0].no_wrap = False
    for kernel in rows:
        text = f"[bold]{kernel.kind[1:]}[/bold] {escape(_opcodes(kernel.opcodes))}"
        if kernel.lines:
            text += f"\n[dim]{escape(', '.join(kernel.lines))}[/dim]"
        made.add_row(text, format_bytes(kernel.bytes_read), format_bytes(kernel.bytes_written))
    return made


def _opcodes(opcodes: tuple[str, ...]) -> str:
    """Return the opcodes in order, without those that only repeat or only reshape."""
    shown = [name for name in opcodes if name not in ("broadcast", "bitcast", "reshape", "iota")]
    counts = dict.fromkeys(shown, 0)
    for name in shown:
        counts[name] += 1
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())


def reasons(facts: Facts) -> Table:
    """Return the table of the fusion decisions, counted by reason."""
    rows = [(escape(reason), str(count)) for reason, count in facts.reasons()]
    return table("decision and reason", "edges", rows=rows)


def hot_loop(llvm: str) -> str:
    """Return the first innermost loop of LLVM text: a block that branches to itself."""
    blocks = re.split(r"\n\n", llvm)
    labels = [re.match(r"loop\d*(?=:)", block) for block in blocks]
    pairs = zip(labels, blocks, strict=True)
    return next(block for label, block in pairs if label and f"label %{label[0]}," in block)


def section(console: Console, title: str, *parts: object) -> None:
    """Print a title and what belongs under it; text is printed as it is."""
    console.rule(f"[bold]{escape(title)}", align="left", style="dim")
    for part in parts:
        console.print(part, markup=not isinstance(part, str), soft_wrap=isinstance(part, str))
    console.print()

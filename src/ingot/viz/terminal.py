# SPDX-License-Identifier: Apache-2.0
"""A report as text: plain lines for `str`, and the same lines in colour for rich.

`lines` is the source of both, so they have the same content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ingot.support.text import format_seconds, format_size
from ingot.viz.content import KernelReport, ProgramReport, ReportContent, Size, StepReport

if TYPE_CHECKING:
    from rich.text import Text

Line = tuple[str, str]
"""Style (of rich; empty for none) and text."""

LIMIT = 20
"""Rows of each part; the page and the JSON have all."""


_MOVES = "bitcast broadcast concatenate copy iota pad reshape reverse slice transpose"
PLUMBING = frozenset(_MOVES.split())
"""Opcodes that only move values; named last."""


def count_text(size: Size) -> str:
    """Return a number of operations with thousands separated, and an expression unchanged."""
    return f"{size:,}" if isinstance(size, int) else size


def opcodes_text(kernel: KernelReport) -> str:
    """Return what a kernel computes: opcodes with counts, those that only move values last."""
    counts = sorted(Counter(kernel.opcodes).items(), key=lambda row: row[0] in PLUMBING)
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts)


def plain(report: ReportContent) -> str:
    """Return the text of a report."""
    return "\n".join(text for _, text in _all_lines(report))


def rich_text(report: ReportContent) -> Text:
    """Return the text of a report for rich."""
    from rich.text import Text

    return Text("\n").join(Text(text, style=style) for style, text in _all_lines(report))


def _all_lines(report: ReportContent) -> Iterator[Line]:
    for program in report.programs:
        yield from lines(program)
    for item in report.observations[:LIMIT]:
        yield "bold yellow", f"{item.function}: {item.kind}"
        yield from (("", f"  {reason}") for reason in item.reasons)
    yield from _rest(len(report.observations))


def lines(program: ProgramReport) -> Iterator[Line]:
    """Yield the lines of one program."""
    kernels = program.kernels
    yield (
        "bold cyan",
        f"{program.name}: {program.instructions_before} instructions, "
        f"{len(kernels)} {'kernel' if len(kernels) == 1 else 'kernels'}",
    )
    peak, temporaries = program.memory["peak_memory_in_bytes"], program.memory["temp_size_in_bytes"]
    yield (
        "",
        f"  memory: {format_size(peak)} at most, {format_size(temporaries)} of it temporaries",
    )
    if kernels:
        yield "bold", "kernels, in the order in which they run"
    for kernel in kernels[:LIMIT]:
        yield from _kernel(kernel)
    yield from _rest(len(kernels))
    if program.step is not None:
        yield from _step(program.step)
    yield from _reasons(program)


def _step(step: StepReport) -> Iterator[Line]:
    """Yield what an execution would cost on a network, the dearest collective first."""
    total = step.seconds or 1.0
    shares = [
        f"{format_seconds(seconds)} ({seconds / total:.0%}) in {what}"
        for seconds, what in (
            (step.kernel_seconds, "kernels"),
            (step.collective_seconds, "collectives"),
        )
    ]
    yield "bold", f"a step on {step.network}: {format_seconds(step.seconds)} by the models"
    if step.hidden_seconds > 0:
        shares.append(f"{format_seconds(step.hidden_seconds)} of them hidden behind kernels")
    yield "", f"  {', '.join(shares)}"
    if step.unknown_loops:
        loops = "loop" if step.unknown_loops == 1 else "loops"
        counts = "counts" if step.unknown_loops == 1 else "count"
        yield "", f"  {step.unknown_loops} {loops} of unknown length {counts} as one round"
    for row in step.collectives[:LIMIT]:
        nodes = f" on {row.nodes} nodes" if row.nodes > 1 else ""
        yield (
            "",
            f"  {format_seconds(row.seconds)} in {row.times} {row.opcode} of "
            f"{format_size(row.size)} over {row.group} devices{nodes} ({row.bound}-bound)",
        )
        if row.line:
            yield "dim", f"     {row.line}"
    yield from _rest(len(step.collectives))


def _kernel(kernel: KernelReport) -> Iterator[Line]:
    time = "" if kernel.seconds is None else f", {format_seconds(kernel.seconds)}"
    if kernel.roofline is not None:
        time += f" ({kernel.roofline:.0%} of the roofline)"
    how = f"{kernel.strategy}, {kernel.bound}-bound" if kernel.bound else kernel.strategy
    feeds = f", feeds {', '.join(f'#{n}' for n in kernel.feeds)}" if kernel.feeds else ""
    yield (
        "",
        f"  #{kernel.number} {format_size(kernel.bytes_read)} read, "
        f"{format_size(kernel.bytes_written)} written, {count_text(kernel.flops)} flops"
        f" ({how}){time}{feeds}: {opcodes_text(kernel)}",
    )
    if kernel.lines:
        yield "dim", f"     {', '.join(kernel.lines)}"


def _reasons(program: ProgramReport) -> Iterator[Line]:
    apart = [row for row in program.fusions if not row.fused]
    fused = len(program.fusions) - len(apart)
    if program.fusions:
        yield "bold", f"fusion: {fused} edges fused, {len(apart)} not"
    for row in apart[:LIMIT]:
        yield "", f"  {row.producer} is not in the kernel of {row.consumer}: {row.reason}"
    yield from _rest(len(apart))
    counts = Counter((row.rule, row.location) for row in program.rewrites)
    if counts:
        yield "bold", f"rewrites: {len(program.rewrites)}"
    for (rule, location), count in counts.most_common(LIMIT):
        yield "", f"  {count} {rule} ({location})"
    yield from _rest(len(counts))


def _rest(count: int) -> Iterator[Line]:
    if count > LIMIT:
        yield "dim", f"  and {count - LIMIT} more"

# SPDX-License-Identifier: Apache-2.0
"""A profile as text: kernels by time, and the user's lines by the time of their kernels."""

from __future__ import annotations

from collections import Counter

from ingot.client.profiling.timings import Row, Timings
from ingot.llvm.machine_model import MachineModel
from ingot.support.text import format_seconds

_OPCODES = 6
"""Different opcodes of a kernel that are named, at most."""


def table(profile: Timings, model: MachineModel | None = None, limit: int | None = None) -> str:
    """Return the rows of a profile as text.

    Args:
        profile: the profile.
        model: the CPU, for the columns of the limit of a kernel and the share of it; kernels of a
            GPU have rates of their own.
        limit: the most kernels, and the most lines, that are shown.
    """
    rows = profile.rows()
    # A loop's time is that of what runs in it.
    total = sum(row.total for row in rows if row.site.kind != "loop") or 1.0
    head = [f"{'share':>6} {'total':>9} {'calls':>6} {'shortest':>9} {'GB/s':>7} {'GFLOP/s':>8}"]
    head += [f" {'bound':>7} {'roof':>5}"] if model is not None else []
    lines = ["".join([*head, "  what"])]
    lines += [_row(row, total, model) for row in rows[:limit]]
    if limit is not None and len(rows) > limit:
        lines.append(f"… and {len(rows) - limit} more")
    by_line = list(profile.seconds_by_line().items())
    if by_line:
        lines += ["", "the user's lines, by the time of the kernels that hold ops of theirs:"]
    lines += [
        f"{100 * seconds / total:5.1f}% {format_seconds(seconds):>9}  {line}"
        for line, seconds in by_line[:limit]
    ]
    if profile.recording.dropped:
        lines.append(f"{profile.recording.dropped} runs are missing: the recording was full")
    return "\n".join(lines)


def _row(row: Row, total: float, model: MachineModel | None) -> str:
    site = row.site
    share = f"{100 * row.total / total:5.1f}%" if site.kind != "loop" else ""
    words = [
        f"{share:>6} {format_seconds(row.total):>9} {row.calls:>6}",
        f"{format_seconds(row.shortest):>9}",
        f"{_rate(site.bytes, row.shortest):>7} {_rate(site.flops, row.shortest):>8}",
    ]
    if model is not None:
        rates = model if site.model is None or isinstance(site.model, MachineModel) else site.model
        part = rates.share(site.bytes, site.flops, row.shortest, site.transcendentals)
        bound = rates.bound(site.bytes, site.flops, site.transcendentals)
        words.append(f"{'' if part is None else bound:>7}")
        words.append(f"{'' if part is None else f'{100 * part:4.0f}%':>5}")
    where = site.lines or ((site.source,) if site.source else ())
    at = f"  {where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''}" if where else ""
    return " ".join(words) + f"  {site.kind} {site.name}{_inside(site.opcodes)}{at}"


def _inside(opcodes: tuple[str, ...]) -> str:
    """Return the opcodes of a kernel, each once, with its count."""
    counts = Counter(opcodes).most_common()
    words = [f"{name} x{count}" if count > 1 else name for name, count in counts[:_OPCODES]]
    if len(counts) > _OPCODES:
        words.append("…")
    return f" ({', '.join(words)})" if words else ""


def _rate(amount: int, seconds: float) -> str:
    """Return a rate in 1e9 per second, as text; "" if the amount is not known."""
    return f"{amount / seconds / 1e9:.3g}" if amount and seconds else ""

# SPDX-License-Identifier: Apache-2.0
"""A bar plot as SVG, written by hand: XLA's time divided by Ingot's, on a logarithmic scale."""

from __future__ import annotations

import math
from html import escape

from benchmarks.common.compare import Row

_COLOURS = {1: "#4c78a8", 2: "#f58518"}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 250, 420, 9, 8, 40
_TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)


def svg(rows: list[Row], threads: list[int], peer: str = "XLA", ours: str = "Ingot") -> str:
    """Return the plot of `peer`'s time relative to that of `ours`."""
    bars = [
        [(n, r) for n in threads if (r := row.ratio(ours, peer, n)) is not None] for row in rows
    ]
    every = [ratio for group in bars for _, ratio in group] or [1.0]
    low, high = min(0.5, *every), max(2.0, *every) * 1.1
    step = _BAR * len(threads) + _GAP
    height = _TOP + step * len(rows) + 12

    def x(ratio: float) -> float:
        share = math.log(ratio / low) / math.log(high / low)
        return _LEFT + _WIDTH * share

    parts = [_open(height), _legend(threads, peer)]
    parts += [_tick(x(tick), tick, height) for tick in _TICKS if low <= tick <= high]
    for number, (row, group) in enumerate(zip(rows, bars, strict=True)):
        top = _TOP + step * number
        parts.append(_text(_LEFT - 8, top + step / 2, row.program.name, "end"))
        for place, (count, ratio) in enumerate(group):
            parts.append(_bar(x(1), x(ratio), top + place * _BAR, ratio, _COLOURS[count]))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _open(height: float) -> str:
    width = _LEFT + _WIDTH + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">'
        f'\n<rect width="{width}" height="{height}" fill="white"/>'
    )


def _legend(threads: list[int], peer: str) -> str:
    parts = [_text(8, 14, f"{peer}'s time / Ingot's (right of 1: Ingot is faster)", "start")]
    for place, count in enumerate(threads):
        left = _LEFT + 200 + 90 * place
        parts.append(f'<rect x="{left}" y="6" width="10" height="10" fill="{_COLOURS[count]}"/>')
        parts.append(_text(left + 14, 14, f"{count} thread{'s' * (count > 1)}", "start"))
    return "\n".join(parts)


def _tick(x: float, tick: float, height: float) -> str:
    shade = "#555" if tick == 1 else "#ddd"
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - 8}" stroke="{shade}"/>'
    return line + _text(x, _TOP - 10, f"{tick:g}", "middle")


def _bar(one: float, end: float, y: float, ratio: float, colour: str) -> str:
    left, width = min(one, end), abs(end - one)
    bar = f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{_BAR - 1}" fill="{colour}"/>'
    return bar + _text(max(one, end) + 4, y + _BAR - 1, f"{ratio:.2f}", "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'

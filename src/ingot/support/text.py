# SPDX-License-Identifier: Apache-2.0
"""Small text helpers: the nearest known name, lists of numbers, readable sizes and times.

These are pure functions of the lowest layer. Every "did you mean" of the project comes from here.

Example:
    >>> nearest("INGOT_NUMTHREADS", ["INGOT_NUM_THREADS", "INGOT_DEBUG"])
    'INGOT_NUM_THREADS'
    >>> format_bytes(3 << 20), format_seconds(0.00125)
    ('3.0 MiB', '1.25 ms')
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_SHOWN = 160
"""Characters of a formula that a message shows: two lines of a terminal."""

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SECOND_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Return the candidate that `word` most likely stands for, or "" when none is near."""
    matches = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else ""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the nearest candidate, or "" when none is near."""
    match = nearest(word, candidates)
    return f"did you mean '{match}'?" if match else ""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 argument`, `2 arguments`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def braced(numbers: Iterable[object]) -> str:
    """Return numbers as XLA writes dimensions and indices: `{1,0}`."""
    return f"{{{','.join(map(str, numbers))}}}"


def format_bytes(count: float) -> str:
    """Return `count` bytes with a binary unit and at most one decimal."""
    step = 0
    while count >= 1024 and step + 1 < len(_BYTE_UNITS):
        count /= 1024
        step += 1
    decimals = 1 if step and count < 100 else 0
    return f"{count:.{decimals}f} {_BYTE_UNITS[step]}"


def format_size(size: object) -> str:
    """Return a number of bytes with a binary unit, and a symbolic size as it is, in `B`."""
    return format_bytes(size) if isinstance(size, int) else f"{size} B"


def shortened(text: str) -> str:
    """Return a formula of a message, without its middle where it is long."""
    left_out = len(text) - MOST_SHOWN
    if left_out <= 0:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]} [... {left_out} characters ...] {text[-half:]}"


def format_seconds(seconds: float) -> str:
    """Return a duration with the largest unit that leaves at least one whole digit."""
    for scale, unit in _SECOND_UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return "0 s" if seconds == 0 else f"{seconds * 1e9:.2g} ns"

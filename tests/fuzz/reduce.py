# SPDX-License-Identifier: Apache-2.0
"""Makes a case that fails as small as it gets while it fails in the same way.

Text is cut by lines, then by words of the lines that stay; anything else by bytes. Both are delta
debugging: ever smaller pieces are left out as long as the finding keeps its signature. A case of
HLO whose module can be read is first cut as a graph (`reduce_hlo`).

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tests.fuzz.reduce_hlo import smaller_modules
from tests.fuzz.target import Target
from tests.fuzz.watch import Watched

TEXTS = (".hlo", ".py", ".mlir", ".txt", ".json")

Piece = TypeVar("Piece", str, int)
Fails = Callable[[bytes], bool]


def reduced(chosen: Target, data: bytes, signature: str, watched: Watched, seconds: float) -> bytes:
    """Return the smallest case found in `seconds` whose finding has the same signature."""
    end = time.monotonic() + seconds

    def fails(candidate: bytes) -> bool:
        if time.monotonic() > end:
            return False
        found = watched.check(candidate)
        return found is not None and found.signature == signature

    if not fails(data):
        return data  # it depends on what ran before it in the same process
    if chosen.suffix == ".hlo":
        data = _graph(data, fails)
    if chosen.suffix in TEXTS:
        return _lines(data, fails)
    whole = list(data)
    return bytes(cut(whole, lambda kept: fails(bytes(kept))))


def _graph(data: bytes, fails: Fails) -> bytes:
    """Return a case with fewer outputs and instructions."""
    again = True
    while again:
        again = False
        for candidate in smaller_modules(data):
            if len(candidate) < len(data) and fails(candidate):
                data, again = candidate, True
                break
    return data


def _lines(data: bytes, fails: Fails) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return bytes(cut(list(data), lambda kept: fails(bytes(kept))))
    lines = text.splitlines(keepends=True)
    return "".join(cut(lines, lambda kept: fails("".join(kept).encode()))).encode()


def cut(whole: Sequence[Piece], fails: Callable[[Sequence[Piece]], bool]) -> Sequence[Piece]:
    """Return a part of `whole` that still fails, and from which no single piece can go."""
    size = max(1, len(whole) // 2)
    while whole:
        for candidate in _without(whole, size):
            if fails(candidate):
                whole = candidate
                break
        else:
            if size == 1:
                break
            size //= 2
        size = max(1, min(size, len(whole) // 2))
    return whole


def _without(whole: Sequence[Piece], size: int) -> Iterator[Sequence[Piece]]:
    for start in range(0, len(whole), size):
        yield [*whole[:start], *whole[start + size :]]

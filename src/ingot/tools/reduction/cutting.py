# SPDX-License-Identifier: Apache-2.0
"""Delta debugging: the least part of a sequence that still fails.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002.

Example:
    >>> cut("abcdefg", lambda kept: {"b", "f"} <= set(kept))
    ['b', 'f']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Piece = TypeVar("Piece")


def cut(whole: Sequence[Piece], fails: Callable[[Sequence[Piece]], bool]) -> list[Piece]:
    """Return a part of `whole` that still fails, but not without any single piece of it.

    Args:
        whole: a sequence that fails; it is not tried again.
        fails: whether a part fails; parts keep the order.
    """
    kept = list(whole)
    size = max(1, len(kept) // 2)
    while kept:
        for candidate in _without(kept, size):
            if fails(candidate):
                kept = candidate
                break
        else:
            if size == 1:
                break
            size //= 2
        size = max(1, min(size, len(kept) // 2))
    return kept


def _without(whole: list[Piece], size: int) -> Iterator[list[Piece]]:
    for start in range(0, len(whole), size):
        yield [*whole[:start], *whole[start + size :]]


def cut_lines(text: str, fails: Callable[[str], bool]) -> str:
    """Return the text with the fewest lines that still fail."""
    return "".join(cut(text.splitlines(keepends=True), lambda kept: fails("".join(kept))))

# SPDX-License-Identifier: Apache-2.0
"""Levels of a graph that is cut at some of its items: items of a level run together.

A *cut* of level `k` runs after all other items of level `k`; items that need it are of level `k +
1` or a later one. The other items of a level run together.

Invariant: the needs of an item are of its own level or an earlier one, and its cuts are of an
earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def assign_levels(
    order: Sequence[T],
    needs: Mapping[T, Sequence[T]],
    cuts: Collection[T],
    fixed: Collection[T],
) -> dict[T, int]:
    """Return the level of each item.

    Cuts and fixed items get the first possible level, other items the last one that all of their
    users allow, so that they run with their users.

    Args:
        order: the items, each after what it needs.
        needs: the items that each item needs.
        cuts: the items at which the graph is cut.
        fixed: items that run as early as possible.

    Example:
        >>> needs = {"a": [], "b": [], "print": ["a"], "c": ["print", "b"]}
        >>> assign_levels(list(needs), needs, {"print"}, ())
        {'a': 0, 'b': 1, 'print': 0, 'c': 1}
    """
    first: dict[T, int] = {}
    for one in order:
        first[one] = max((first[need] + (need in cuts) for need in needs[one]), default=0)
    levels = dict.fromkeys(order, max(first.values(), default=0))
    for one in reversed(order):
        if one in cuts or one in fixed:
            levels[one] = first[one]
        for need in needs[one]:
            levels[need] = min(levels[need], levels[one])
    return levels

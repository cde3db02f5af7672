# SPDX-License-Identifier: Apache-2.0
"""Searches the smallest program that fails as a given one: parts of its graph, then single edits.

Parts are found by delta debugging over the instructions of the entry (`cutting`, `subgraph`), so a
module of thousands needs some dozens of trials; what is left is simplified edit by edit until none
can be made (`simplify`), and cut again.

Invariant: what is returned failed when it was tried, or is the given case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.tools.reduction.cases import Case
from ingot.tools.reduction.cutting import cut
from ingot.tools.reduction.simplify import simpler
from ingot.tools.reduction.subgraph import is_free, subgraph, values_of

Fails = Callable[[Case], bool]


def reduce_graph(case: Case, fails: Fails) -> Case:
    """Return the smallest case found that fails; `case` does, and is not tried again."""
    again = True
    while again:
        case, again = _simplest(_fewest(case, fails), fails)
    return case


def _fewest(case: Case, fails: Fails) -> Case:
    """Return a case with as few instructions of the entry as still fail."""
    values = values_of(case)
    root = case.module.entry.root
    names = [
        item.name
        for item in case.module.entry.post_order()
        if not is_free(item) and not (item is root and item.opcode == "tuple")
    ]
    found = [case]

    def still(kept: Sequence[str]) -> bool:
        made = subgraph(case, kept, values)
        if made is None or not fails(made):
            return False
        found.append(made)
        return True

    cut(names, still)
    return found[-1]


def _simplest(case: Case, fails: Fails) -> tuple[Case, bool]:
    """Return a case that no edit makes simpler, and whether it is another one.

    After an edit the search goes on where it was: what was tried before it is tried again at the
    end only.
    """
    changed, start, again = False, 0, True
    while again:
        again = False
        for number, make in enumerate(simpler(case)):
            made = make() if number >= start else None
            if made is not None and fails(made):
                case, start, changed, again = made, number, True, True
                break
        else:
            start, again = 0, start > 0
    return case, changed

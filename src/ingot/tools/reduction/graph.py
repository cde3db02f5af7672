# SPDX-License-Identifier: Apache-2.0
"""Search for the smallest program that fails like a given one: parts of its graph, then edits.

Parts are found by delta debugging over the instructions of the entry (`cutting`, `subgraph`), so a
module of thousands needs some dozens of trials. The result is simplified edit by edit until no edit
is possible (`simplify`), and cut again.

Invariant: the result failed when it was tried, or is the given case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.tools.programs.cases import Case
from ingot.tools.reduction.cutting import cut
from ingot.tools.reduction.simplify import simpler
from ingot.tools.reduction.subgraph import is_free, subgraph, values_of

Fails = Callable[[Case], bool]


def reduce_graph(case: Case, fails: Fails) -> Case:
    """Return the smallest failing case found; `case` fails, and is not tried again."""
    again = True
    while again:
        case, again = _simplest(_fewest(case, fails), fails)
    return case


def _fewest(case: Case, fails: Fails) -> Case:
    """Return a case with the fewest instructions of the entry that still fail."""
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
    """Return a case that no edit makes simpler, and whether it differs from the given one.

    After an edit the search continues there; earlier edits are tried again only at the end.
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

# SPDX-License-Identifier: Apache-2.0
"""Coalescing: values that should share a buffer do, unless two are live at one time.

A class is a set of values that live in one buffer, with the times at which it is in use. Classes
that interfere are never joined; an edge that cannot be joined needs a copy.

Invariant: the times of a class are disjoint and sorted; two different values of a class are never
live together.

Source: the register coalescing of SSA destruction (Boissinot et al., CGO 2009) applied to
buffers; it stands where XLA has copy_insertion.cc's CopyRemover.
"""

from __future__ import annotations

from bisect import bisect_left

from ingot.analysis.aliasing import Value
from ingot.analysis.liveness import Edge, Liveness, Segment, analyze_liveness
from ingot.hlo.module import Module
from ingot.support.diagnostics import InternalError


class Classes:
    """Sets of values that share a buffer; built from liveness, joined by `join`."""

    def __init__(self, liveness: Liveness) -> None:
        """Put every value in its own class, then join values that are one buffer by definition.

        Raises:
            InternalError: two values that must be one buffer are live at the same time.
        """
        self._ends = liveness.hull_end
        self._parent: dict[Value, Value] = {}
        self._times: dict[Value, list[Segment]] = {}
        self._members: dict[Value, list[Value]] = {}
        for value, segments in liveness.segments.items():
            self._parent[value] = value
            self._times[value] = list(segments)
            self._members[value] = [value]
        for left, right in liveness.together:
            if not self.join(left, right):
                raise InternalError(f"{left} and {right} are one buffer but interfere")

    def find(self, value: Value) -> Value:
        """Return the representative of the class of `value`."""
        parent = self._parent
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    def members(self, representative: Value) -> list[Value]:
        """Return the values of a class."""
        return self._members[representative]

    @property
    def representatives(self) -> list[Value]:
        """One value per class, in a stable order."""
        return [value for value, parent in self._parent.items() if parent is value]

    def hull(self, representative: Value) -> tuple[int, int]:
        """Return the first and last time at which other buffers must not overlap a class."""
        ends = self._ends
        last = max([ends[value] for value in self._members[representative]])
        return self._times[representative][0][0], last

    def join(self, left: Value, right: Value) -> bool:
        """Make both classes one unless they interfere; return whether they are one now."""
        left, right = self.find(left), self.find(right)
        if left is right:
            return True
        if len(self._times[left]) < len(self._times[right]):
            left, right = right, left
        taken, added = self._times[left], self._times[right]
        if any(_overlaps(taken, segment) for segment in added):
            return False
        if len(added) * 8 < len(taken):
            for segment in added:
                taken.insert(bisect_left(taken, segment), segment)
        else:
            taken.extend(added)
            taken.sort()
        self._parent[right] = left
        self._members[left].extend(self._members.pop(right))
        del self._times[right]
        return True


def join_edges(classes: Classes, liveness: Liveness) -> list[Edge]:
    """Join along every edge, in order; return the edges that need a copy."""
    return [edge for edge in liveness.edges if not classes.join(edge.source, edge.target)]


def shared_buffers(module: Module) -> tuple[Liveness, Classes]:
    """Return the classes of values of a scheduled module that are one buffer each.

    Raises:
        InternalError: INGOT0922 when copy insertion has not run, or not after the last edit.
    """
    liveness = analyze_liveness(module)
    classes = Classes(liveness)
    missing = join_edges(classes, liveness)
    if missing:
        raise InternalError(
            f"{missing[0].source} and {missing[0].target} must share a buffer and interfere",
            code="INGOT0922",
            instruction=repr(missing[0].user),
            hint="run copy-insertion before buffer assignment",
        )
    for source, result in liveness.may_share:
        classes.join(source, result)
    return liveness, classes


def _overlaps(taken: list[Segment], segment: Segment) -> bool:
    """Whether a segment meets one of a sorted list of disjoint ones."""
    first, last = segment
    after = bisect_left(taken, (first, -2))
    if after < len(taken) and taken[after][0] <= last:
        return True
    return after > 0 and taken[after - 1][1] >= first

# SPDX-License-Identifier: Apache-2.0
"""A graph whose edges are contracted, and that stays free of cycles.

Nodes keep a rank that grows along every edge (Pearce and Kelly's dynamic topological order), so
whether one node reaches another is looked for only between their ranks.

Source: D. Pearce, P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs",
as TensorFlow's `compiler/jit/graphcycles` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class CycleGraph:
    """A directed graph without cycles whose edges can be contracted."""

    def __init__(self, count: int, order: Sequence[int] = ()) -> None:
        """Start with `count` nodes and no edges; `order` is one that most edges will follow."""
        self._after: list[dict[int, None]] = [{} for _ in range(count)]
        self._before: list[dict[int, None]] = [{} for _ in range(count)]
        rest = range(len(order), count)
        self._ranks = [0] * count
        for rank, node in enumerate((*order, *rest)):
            self._ranks[node] = rank

    def successors(self, node: int) -> list[int]:
        """Return the nodes that an edge from `node` leads to."""
        return list(self._after[node])

    def predecessors(self, node: int) -> list[int]:
        """Return the nodes that an edge to `node` comes from."""
        return list(self._before[node])

    def add_edge(self, source: int, target: int) -> bool:
        """Add an edge; False, and nothing is changed, if it would close a cycle."""
        if source == target:
            return False
        if target in self._after[source]:
            return True
        if self._ranks[source] > self._ranks[target] and not self._reorder(source, target):
            return False
        self._after[source][target] = None
        self._before[target][source] = None
        return True

    def contract(self, source: int, target: int) -> bool:
        """Make one node, `source`, of two that an edge joins; False if that would close a cycle."""
        self._remove(source, target)
        if self._reaches(source, target):
            self._after[source][target] = None
            self._before[target][source] = None
            return False
        for node in self.successors(target):
            self._remove(target, node)
            self.add_edge(source, node)
        for node in self.predecessors(target):
            self._remove(node, target)
            self.add_edge(node, source)
        return True

    def post_order(self) -> list[int]:
        """Return the nodes, each after all that it leads to."""
        order = sorted(range(len(self._ranks)), key=self._ranks.__getitem__)
        seen: set[int] = set()
        done: list[int] = []
        for root in order:
            if self._before[root] or root in seen:
                continue
            seen.add(root)
            stack = [(root, iter(self._after[root]))]
            while stack:
                node, rest = stack[-1]
                following = next((item for item in rest if item not in seen), None)
                if following is None:
                    stack.pop()
                    done.append(node)
                else:
                    seen.add(following)
                    stack.append((following, iter(self._after[following])))
        return done

    def _remove(self, source: int, target: int) -> None:
        del self._after[source][target]
        del self._before[target][source]

    def _reaches(self, source: int, target: int) -> bool:
        limit = self._ranks[target]
        return target in self._region(source, self._after, lambda rank: rank <= limit)

    def _region(
        self, start: int, edges: list[dict[int, None]], inside: Callable[[int], bool]
    ) -> set[int]:
        """Return what `edges` lead to from `start` over nodes whose ranks are `inside`."""
        seen = {start}
        stack = [start]
        while stack:
            for node in edges[stack.pop()]:
                if node not in seen and inside(self._ranks[node]):
                    seen.add(node)
                    stack.append(node)
        return seen

    def _reorder(self, source: int, target: int) -> bool:
        """Move what `target` leads to behind what leads to `source`; False if they meet."""
        high, low = self._ranks[source], self._ranks[target]
        forward = self._region(target, self._after, lambda rank: rank <= high)
        if source in forward:
            return False
        backward = self._region(source, self._before, lambda rank: rank >= low)
        by_rank = self._ranks.__getitem__
        moved = [*sorted(backward, key=by_rank), *sorted(forward, key=by_rank)]
        for node, rank in zip(moved, sorted(map(by_rank, moved)), strict=True):
            self._ranks[node] = rank
        return True

# SPDX-License-Identifier: Apache-2.0
"""When the nodes of a graph run: under which branches of conditionals, and in which loop.

A graph that TensorFlow lowered has `Switch` and `Merge` for branches, `Enter` and `Exit` for loops;
a node runs if none of its inputs is dead. `Liveness.conditions[n]` is the set of what must hold for
node n to run: (predicate, port) for an output of a `Switch`, a token for a frame.

Invariant: two nodes with equal conditions both run or both do not, as often as each other.
Source: TensorFlow's `compiler/jit/deadness_analysis.cc`, of which this is the part that needs no
symbolic predicates: what a `Merge` of anything but two opposite branches gives is a condition of
its own.
"""

from __future__ import annotations

from typing import Any

from ingot.frontends.tensorflow.clustering.graph import Graph, Tensor

Conditions = frozenset[Any]

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT = frozenset({"NextIteration", "RefNextIteration"})


class Liveness:
    """The conditions of every node.

    Attributes:
        conditions: per node what must hold for it to run.
        order: the nodes, each after what it needs in the same iteration.
        frames: per loop the nodes that enter and that leave it.
    """

    def __init__(self, graph: Graph) -> None:
        """Go over the nodes in order."""
        self._graph = graph
        self.conditions: list[Conditions] = [frozenset()] * len(graph)
        self.frames: dict[str, tuple[list[int], list[int]]] = {}
        self._outside: dict[str, Conditions] = {}
        self._frame_of: list[tuple[str, ...]] = [()] * len(graph)
        self.order = _order(graph)
        for number in self.order:
            self._visit(number)

    def _visit(self, number: int) -> None:
        op = self._graph.nodes[number].op
        before = [self._of_output(item) for item in self._graph.inputs[number]]
        before += [self.conditions[item] for item in self._graph.controls[number]]
        frames = (self._frame_of[item] for item in self._forward(number))
        frame = self._frame_of[number] = max(frames, key=len, default=())
        if op in ENTERS:
            name = self._graph.nodes[number].attr["frame_name"].s.decode()
            outside = frozenset[Any]().union(*before)
            self._frame_of[number] = (*frame, name)
            self._outside[name] = self._outside.get(name, frozenset()) | outside
            self.frames.setdefault(name, ([], []))[0].append(number)
            self.conditions[number] = outside | {("frame", name)}
        elif op in EXITS and frame:
            self._frame_of[number] = frame[:-1]
            self.frames[frame[-1]][1].append(number)
            self.conditions[number] = self._outside[frame[-1]]
        elif op in MERGES:
            self.conditions[number] = self._merged(number)
        else:
            self.conditions[number] = frozenset[Any]().union(*before)

    def _forward(self, number: int) -> list[int]:
        nodes = self._graph.nodes
        return [item for item in self._graph.predecessors(number) if nodes[item].op not in NEXT]

    def _of_output(self, tensor: Tensor) -> Conditions:
        """Return when a tensor is alive."""
        found = self.conditions[tensor.node]
        if self._graph.nodes[tensor.node].op not in SWITCHES:
            return found
        return found | {(self._graph.inputs[tensor.node][1], tensor.port)}

    def _merged(self, number: int) -> Conditions:
        sources = self._graph.inputs[number]
        nodes = self._graph.nodes
        forward = [item for item in sources if nodes[item.node].op not in NEXT]
        found = [self._of_output(item) for item in forward]
        if len(forward) < len(sources):  # of a loop: it runs in every iteration
            return frozenset[Any]().union(*found)
        if len(found) == 2:
            only_first, only_second = found[0] - found[1], found[1] - found[0]
            if len(only_first) == len(only_second) == 1:
                (first,), (second,) = only_first, only_second
                if first[0] == second[0] and {first[1], second[1]} == {0, 1}:
                    return found[0] & found[1]
        return frozenset({("merge", number)})


def _order(graph: Graph) -> list[int]:
    """Return the nodes, each after what it needs; edges back to the next iteration do not count."""
    needed: list[list[int]] = []
    for number in range(len(graph)):
        back = graph.nodes[number].op in MERGES
        needed.append(
            [
                item
                for item in graph.predecessors(number)
                if not (back and graph.nodes[item].op in NEXT)
            ]
        )
    missing = [len(item) for item in needed]
    following: list[list[int]] = [[] for _ in needed]
    for number, items in enumerate(needed):
        for item in items:
            following[item].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    for number in ready:
        for item in following[number]:
            missing[item] -= 1
            if not missing[item]:
                ready.append(item)
    return ready

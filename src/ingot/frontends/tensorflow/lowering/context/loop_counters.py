# SPDX-License-Identifier: Apache-2.0
"""Loop variables that count: from a number, by a number, while they are less than a number.

`tf.range` loops and `while_loop(lambda i, ...: i < n, ...)` have one. How far it gets decides
whether a window `x[i:i + k]` is cut at the end of its dimension (`strided`).

Invariant: a counter has a value between its first and its last one in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode, TensorRef
from ingot.frontends.tensorflow.lowering.context.values import Known, Size, Value, plain_size
from ingot.hlo import dim as dim_math
from ingot.support.records import record

_MOVES = frozenset({"Cast", "Identity"})


@record
class LoopCounter:
    """A loop variable that counts.

    Attributes:
        first: its value in the first iteration.
        step: what each iteration adds, more than 0.
        limit: all its values are less.
    """

    first: Size
    step: int
    limit: Size

    @property
    def last(self) -> Size:
        """Its value in the last iteration, if there is one."""
        steps = dim_math.floordiv(self.limit - 1 - self.first, self.step)
        return self.first + steps * self.step

    @property
    def most(self) -> Size:
        """What no value is above; simpler than `last` where sizes are symbolic."""
        found = self.last
        return found if isinstance(found, int) else self.limit - 1


class _Graph:
    """A body or condition, with what is known of its inputs."""

    def __init__(self, function: CapturedFunction, values: Sequence[Value]) -> None:
        self.function = function
        self._made = {node.name: node for node in function.nodes}
        names = [item.name for item in function.inputs]
        self._inputs = {TensorRef(name): n for n, name in enumerate(names)}
        self._values = values

    def node(self, ref: TensorRef) -> CapturedNode | None:
        """Return the node that makes a value, behind what only moves it; None for an input."""
        return self._made.get(self._source(ref).node)

    def _source(self, ref: TensorRef) -> TensorRef:
        while ref.node in self._made and self._made[ref.node].op in _MOVES:
            ref = self._made[ref.node].inputs[0]
        return ref

    def input(self, ref: TensorRef) -> int | None:
        """Return which input a value is."""
        return self._inputs.get(self._source(ref))

    def number(self, ref: TensorRef, unchanged: frozenset[int]) -> Size | None:
        """Return an integer that is the same in every iteration, if it is known."""
        node, number = self.node(ref), self.input(ref)
        if node is not None and node.op == "Const":
            return _integer(np.asarray(node.attributes["value"]))
        value = self._values[number] if number in unchanged else None
        return _integer(value.array) if isinstance(value, Known) else None


def _integer(array: np.ndarray) -> Size | None:
    if array.ndim or array.dtype.kind not in "iuO":
        return None
    found: Size = plain_size(array.ravel()[0])
    return found


def loop_counters(
    condition: CapturedFunction,
    body: CapturedFunction,
    values: Sequence[Value],
    unchanged: frozenset[int],
) -> dict[int, LoopCounter]:
    """Return the loop variables that count, by number.

    Args:
        condition: of the loop.
        body: of the loop.
        values: the loop variables before the loop.
        unchanged: those that the body returns as they are.
    """
    inside = _Graph(body, values)
    found: dict[int, LoopCounter] = {}
    for number, limit in _limits(_Graph(condition, values), unchanged):
        step = _step(inside, number, unchanged)
        first = values[number]
        start = _integer(first.array) if isinstance(first, Known) else None
        if start is not None and step is not None:
            found[number] = LoopCounter(start, step, limit)
    return found


def _limits(graph: _Graph, unchanged: frozenset[int]) -> Iterator[tuple[int, Size]]:
    """Yield the inputs that must be less than a number for the loop to go on, and the number."""
    pending = [graph.function.outputs[0]]
    while pending:
        node = graph.node(pending.pop())
        if node is None:
            continue
        if node.op == "LogicalAnd":
            pending += node.inputs
        elif node.op in ("Less", "LessEqual", "Greater", "GreaterEqual"):
            low, high = node.inputs if node.op.startswith("Less") else node.inputs[::-1]
            number, limit = graph.input(low), graph.number(high, unchanged)
            if number is not None and limit is not None:
                yield number, limit + 1 if node.op.endswith("Equal") else limit


def _step(graph: _Graph, number: int, unchanged: frozenset[int]) -> int | None:
    """Return what the body adds to an input, if it is a positive number."""
    node = graph.node(graph.function.outputs[number])
    if node is None or node.op not in ("Add", "AddV2"):
        return None
    for mine, other in (node.inputs, node.inputs[::-1]):
        step = graph.number(other, unchanged)
        if graph.input(mine) == number and isinstance(step, int) and step > 0:
            return step
    return None

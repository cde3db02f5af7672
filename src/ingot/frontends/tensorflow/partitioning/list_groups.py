# SPDX-License-Identifier: Apache-2.0
"""Which lists of a function that is cut are compiled: those that only compiled loops have in hand.

Lists cross the border of a part as stacked tensors. So a list that a node on the host takes, or
that the function is given or gives back, stays with TensorFlow, and what is done with it outside
of loops too: it would be stacked at every cut. The lists of a recurrent layer, which are made,
filled by a loop, stacked and read again by the gradient's loop, are compiled with their loops.

Invariant: lists that are made of one another are all compiled, or none is.
"""

from __future__ import annotations

from collections.abc import Collection

from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, TensorRef
from ingot.frontends.tensorflow.graphs.variables import CALLS


def compiled_lists(function: CapturedFunction, hosted: Collection[str]) -> frozenset[str]:
    """Return the nodes that take or make lists and can be compiled with the loops that use them.

    Args:
        function: the function.
        hosted: its nodes on the host.
    """
    outside = {item.name for item in function.inputs if item.type.dtype == "variant"}
    lists = {TensorRef(name) for name in outside}
    loops: set[str] = set()
    groups = _Groups()
    for node in function.nodes:
        made = [at for at, item in enumerate(node.outputs) if item.dtype == "variant"]
        lists.update(TensorRef(node.name, at) for at in made)
        taken = [ref.node for ref in node.inputs if ref in lists]
        if not (made or taken):
            continue
        groups.join([node.name, *taken])
        if node.name in hosted or node.op == "FakeParam":
            outside.add(node.name)
        elif node.op in CALLS:
            loops.add(node.name)
    outside.update(ref.node for ref in function.outputs if ref in lists)
    left = groups.roots(loops) - groups.roots(outside)
    return frozenset(name for name in groups.members if groups.root(name) in left)


class _Groups:
    """Names in groups: those that were joined, directly or through others."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self.members: set[str] = set()

    def join(self, names: Collection[str]) -> None:
        self.members.update(names)
        first, *others = {self.root(name) for name in names}
        self._parents.update(dict.fromkeys(others, first))

    def root(self, name: str) -> str:
        while name in self._parents:
            name = self._parents[name]
        return name

    def roots(self, names: Collection[str]) -> set[str]:
        return {self.root(name) for name in names}

# SPDX-License-Identifier: Apache-2.0
"""What the lists of a function hold that enter or leave it: lists, and of what.

TensorFlow says of a list of lists that its elements are variants, and no more; of a list that only
some branch of a conditional makes it says nothing. What those hold follows from what is done with
them, here or in a function that is called.

Invariant: lists that may be the same one at run time are of one class.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedNode,
    FunctionRef,
    TensorRef,
    TypeName,
)
from ingot.support.records import fresh, mutable

_Key = tuple[str, TensorRef]
"""A tensor, with the function that it is in; a function's elements have keys of their own."""

_SAME = frozenset({"AddN", "Identity", "StopGradient", "ZerosLike"})
_ITEMS = {"TensorListPushBack": 1, "TensorListSetItem": 2}
"""Ops that put an item into a list, and which operand it is."""

_TAKEN = {"TensorListPopBack": 1, "TensorListGetItem": 0}
"""Ops that take an item from a list, and which result it is."""

_READ = frozenset({"TensorListGather", "TensorListStack"})
_MADE = frozenset(
    {"EmptyTensorList", "TensorListFromTensor", "TensorListReserve", "TensorListScatterV2"}
)
_BODIES = {
    "While": 0, "StatelessWhile": 0, "PartitionedCall": 0, "StatefulPartitionedCall": 0,
    "SymbolicGradient": 0,
    "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1,
}  # fmt: skip
"""Ops that call functions, and the first operand that is handed in."""


@mutable(eq=False)
class ListTypes:
    """The classes of a function's lists.

    Attributes:
        parents: a list of the same class that stands for it.
        dtypes: by class, the element type.
        elements: by class, a list among the elements.
    """

    parents: dict[_Key, _Key] = fresh(factory=dict)
    dtypes: dict[_Key, str] = fresh(factory=dict)
    elements: dict[_Key, _Key] = fresh(factory=dict)

    @staticmethod
    def of(function: CapturedFunction) -> ListTypes:
        """Return the classes of the lists of a function and what it calls."""
        found = ListTypes()
        pending, seen = [function], {function.name}
        while pending:
            current = pending.pop()
            for node in current.nodes:
                found._add(current, node)
                for name in _called(node):
                    if name not in seen:
                        seen.add(name)
                        pending.append(current.library[name])
        return found

    def of_elements(self, function: CapturedFunction, ref: TensorRef) -> str | None:
        """Return the element type of the lists in a list; None if it is no list of lists."""
        inner = self.elements.get(self._root((function.name, ref)))
        return None if inner is None else self.dtypes.get(self._root(inner))

    def is_of_lists(self, function: CapturedFunction, ref: TensorRef) -> bool:
        """Whether a tensor is a list of lists."""
        return self._root((function.name, ref)) in self.elements

    def has_unknown_lists(self, function: CapturedFunction, ref: TensorRef) -> bool:
        """Whether a list holds lists of which nothing is read and nothing is written."""
        inner = self.elements.get(self._root((function.name, ref)))
        if inner is None:
            return False
        root = self._root(inner)
        return root not in self.dtypes and root not in self.elements

    def of_numbers(self, function: CapturedFunction, ref: TensorRef) -> str | None:
        """Return the type of the numbers in a list; None if what it holds is not known."""
        return self.dtypes.get(self._root((function.name, ref)))

    def _root(self, key: _Key) -> _Key:
        while key in self.parents:
            key = self.parents[key]
        return key

    def _unify(self, one: _Key, other: _Key) -> None:
        pending = [(one, other)]
        while pending:
            left, right = map(self._root, pending.pop())
            if left == right:
                continue
            self.parents[right] = left
            if right in self.dtypes:
                self.dtypes.setdefault(left, self.dtypes.pop(right))
            inner = self.elements.pop(right, None)
            if inner is not None:
                pending.append((self.elements.setdefault(left, inner), inner))

    def _add(self, function: CapturedFunction, node: CapturedNode) -> None:
        """Take over what a node says of lists."""
        operands = [(function.name, ref) for ref in node.inputs]
        results = [(function.name, TensorRef(node.name, n)) for n in range(len(node.outputs))]
        op = node.op
        if op in _BODIES:
            self._call(function, node, operands, results)
        elif op in _MADE:
            self._hold(node, results[0], None)
        elif op in _READ:
            self._hold(node, operands[0], None)
        elif op in _TAKEN:
            self._hold(node, operands[0], results[_TAKEN[op]])
        elif op in _ITEMS:
            self._hold(node, operands[0], operands[_ITEMS[op]])
        if op in _ITEMS or op == "TensorListPopBack" or op in _SAME:
            for operand in operands if op in _SAME else operands[:1]:
                self._unify(results[0], operand)

    def _hold(self, node: CapturedNode, key: _Key, item: _Key | None) -> None:
        """Note what a list holds; `item`: one of its elements."""
        kind, root = node.attributes.get("element_dtype"), self._root(key)
        if isinstance(kind, TypeName) and kind.name != "variant":
            self.dtypes[root] = kind.name
        elif item is not None:
            self._unify(self.elements.setdefault(root, item), item)

    def _call(
        self,
        function: CapturedFunction,
        node: CapturedNode,
        operands: list[_Key],
        results: list[_Key],
    ) -> None:
        handed = operands[_BODIES[node.op] :]
        for name in _called(node):
            callee = function.library[name]
            for item, key in zip(callee.inputs, handed, strict=False):
                if item.type.dtype == "variant":
                    self._unify((name, TensorRef(item.name)), key)
            if "While" in node.op and len(callee.outputs) != len(handed):
                continue  # The condition, whose result is no part of the state.
            for ref, kind, key in zip(callee.outputs, callee.output_types, results, strict=False):
                if kind.dtype == "variant":
                    self._unify(key, (name, ref))
        if "While" in node.op:
            for at, key in enumerate(results):
                if node.outputs[at].dtype == "variant":
                    self._unify(key, operands[at])


def _called(node: CapturedNode) -> Iterator[str]:
    if node.op not in _BODIES:
        return
    for value in node.attributes.values():
        several = value if isinstance(value, tuple) else (value,)
        yield from (item.name for item in several if isinstance(item, FunctionRef))

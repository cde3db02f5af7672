# SPDX-License-Identifier: Apache-2.0
"""Walks over graphs, without recursion: what some nodes lead to, and what they need.

A graph is a function from a node to its neighbours: the operands or users of an instruction, the
arguments of an expression, the callees of a computation. Every layer has such graphs, some deeper
than Python's stack.

Invariant: the order follows from the order of the nodes and of their neighbours alone.

Example:
    >>> needs = {"sum": ("x", "product"), "product": ("x", "y")}
    >>> list(reachable(["sum"], lambda node: needs.get(node, ())))
    ['sum', 'x', 'product', 'y']
    >>> needs_first(["sum"], lambda node: needs.get(node, ()))
    ['x', 'y', 'product', 'sum']
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield some nodes and all that they lead to, each once, in depth first order.

    Whoever looks for something may stop there. A node may be changed when it is yielded: what
    follows it is asked for afterwards.
    """
    stack = [*dict.fromkeys(starts)][::-1]
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        found = [one for one in dict.fromkeys(following(node)) if one not in seen]
        seen.update(found)
        stack += reversed(found)


def needs_first(
    roots: Sequence[T], needs: Callable[[T], Iterable[T]], known: Container[T] = ()
) -> list[T]:
    """Return some nodes and all that they need, each once, after what it needs.

    Args:
        roots: the nodes.
        needs: returns what a node needs. A node that needs itself comes after the others.
        known: nodes that are left out, with those that only they need.
    """
    order: dict[T, None] = {}
    entered: set[T] = set()
    stack = [root for root in reversed(roots) if root not in known]
    while stack:
        node = stack[-1]
        if node in entered:
            order[stack.pop()] = None
        else:
            entered.add(node)
            waiting = [one for one in needs(node) if one not in entered and one not in known]
            stack += reversed(waiting)
    return list(order)

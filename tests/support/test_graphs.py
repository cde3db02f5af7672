# SPDX-License-Identifier: Apache-2.0
"""Walks over graphs: each node once, deep graphs, known nodes, cycles, edits on the way."""

import random

from ingot.support.graphs import needs_first, reachable


def graph(seed, size=30):
    """Return a graph without cycles: what each number needs, smaller numbers."""
    generator = random.Random(seed)
    return {
        n: [generator.randrange(n) for _ in range(generator.randrange(4)) if n] for n in range(size)
    }


def recursive_order(roots, needs):
    order = []

    def visit(node):
        if node not in order:
            for one in needs[node]:
                visit(one)
            order.append(node)

    for root in roots:
        visit(root)
    return order


def test_needs_come_first_in_the_order_of_a_recursive_visit():
    for seed in range(50):
        needs = graph(seed)
        roots = [29, 17, 29, 3]
        order = needs_first(roots, needs.__getitem__)
        assert order == recursive_order(roots, needs)
        assert sorted(reachable(roots, needs.__getitem__)) == sorted(order)


def test_known_nodes_are_left_out_with_what_only_they_need():
    needs = {"a": "bc", "b": "d", "c": "", "d": "e", "e": ""}
    assert needs_first("a", needs.__getitem__, {"b"}) == ["c", "a"]
    assert needs_first("ad", needs.__getitem__, {"b"}) == ["c", "a", "e", "d"]
    assert needs_first("b", needs.__getitem__, {"b"}) == []


def test_deep_graphs_need_no_deep_stack():
    deep = range(100_000)
    assert needs_first([0], lambda n: [n + 1] if n < deep[-1] else []) == [*reversed(deep)]
    assert list(reachable([0], lambda n: [n + 1, n + 1] if n < deep[-1] else [])) == [*deep]


def test_cycles_end():
    needs = {"a": "b", "b": "ca", "c": "c"}
    assert needs_first("a", needs.__getitem__) == ["c", "b", "a"]
    assert list(reachable("a", needs.__getitem__)) == ["a", "b", "c"]


def test_what_follows_a_node_is_asked_for_after_it_was_yielded():
    follows = {"a": ["b"], "b": [], "c": []}
    seen = []
    for node in reachable("a", follows.__getitem__):
        seen.append(node)
        if node == "a":
            follows["a"] = ["c"]
    assert seen == ["a", "c"]

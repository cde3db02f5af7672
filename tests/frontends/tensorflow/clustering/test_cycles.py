# SPDX-License-Identifier: Apache-2.0
"""Contracted graphs stay free of cycles, and what could be contracted is."""

import random

import pytest

from ingot.frontends.tensorflow.clustering.cycles import CycleGraph


def reaches(edges, start, goal, without=None):
    seen, stack = {start}, [start]
    while stack:
        here = stack.pop()
        for a, b in edges:
            if a == here and (a, b) != without and b not in seen:
                seen.add(b)
                stack.append(b)
    return goal in seen


def test_an_edge_beside_a_path_cannot_be_contracted():
    graph = CycleGraph(3)
    for edge in ((0, 1), (1, 2), (0, 2)):
        assert graph.add_edge(*edge)
    assert not graph.contract(0, 2)
    assert graph.contract(0, 1)
    assert graph.contract(0, 2)
    assert graph.successors(0) == []


def test_an_edge_that_closes_a_cycle_is_not_added():
    graph = CycleGraph(4)
    assert graph.add_edge(2, 1)
    assert graph.add_edge(1, 0)
    assert not graph.add_edge(0, 2)
    assert not graph.add_edge(0, 0)
    assert graph.successors(0) == []
    assert graph.post_order().index(0) < graph.post_order().index(2)


@pytest.mark.parametrize("seed", range(20))
def test_contraction_as_by_search(seed):
    """Every answer is that of a search over all paths, and the order stays one."""
    chance = random.Random(seed)
    count = 14
    graph, edges = CycleGraph(count), set()
    for _ in range(30):
        a, b = chance.sample(range(count), 2)
        closes = reaches(edges, b, a)
        assert graph.add_edge(a, b) == (not closes or (a, b) in edges)
        if not closes:
            edges.add((a, b))
    for _ in range(40):
        if not edges:
            break
        a, b = chance.choice(sorted(edges))
        blocked = reaches(edges - {(a, b)}, a, b)
        assert graph.contract(a, b) == (not blocked)
        if not blocked:
            edges = {(a if x == b else x, a if y == b else y) for x, y in edges} - {(a, a)}
        order = {node: at for at, node in enumerate(graph.post_order())}
        assert all(order[x] > order[y] for x, y in edges)
        assert {(x, y) for x in range(count) for y in graph.successors(x)} == edges

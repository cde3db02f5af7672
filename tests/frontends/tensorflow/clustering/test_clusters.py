# SPDX-License-Identifier: Apache-2.0
"""Which nodes become a cluster, on graphs made for it."""

import pytest
import tensorflow as tf

from ingot.frontends.tensorflow.api.xla_flags import parse
from ingot.frontends.tensorflow.clustering.clusters import Fuel, find_clusters
from ingot.frontends.tensorflow.clustering.graph import Graph
from ingot.frontends.tensorflow.clustering.liveness import Liveness

v1 = tf.compat.v1


def graph_of(build, old_control_flow=False):
    graph = tf.Graph()
    if old_control_flow:
        v1.disable_control_flow_v2()
    with graph.as_default():
        build()
    v1.enable_control_flow_v2()
    return Graph(graph.as_graph_def())


def clusters_of(graph, text="", is_global=True, fuel=1 << 40, kept=()):
    found = find_clusters(
        graph, parse(text), is_global, Fuel(fuel), lambda n: graph.nodes[n].name in kept
    )
    return [[graph.nodes[number].name for number in nodes] for nodes in found]


def chain(x, names, ops=(tf.sin, tf.cos, tf.tanh, tf.exp, tf.abs, tf.sqrt)):
    for name, op in zip(names, ops, strict=False):
        x = op(x, name=name)
    return x


def placeholder(name="x", shape=(4,)):
    return v1.placeholder(tf.float32, shape, name=name)


def test_a_chain_is_one_cluster_and_short_ones_are_none():
    graph = graph_of(lambda: (chain(placeholder(), "abcd"), chain(placeholder("y"), "efg")))
    assert clusters_of(graph) == [["a", "b", "c", "d"]]
    assert clusters_of(graph, "--tf_xla_min_cluster_size=3") == [list("abcd"), list("efg")]
    assert clusters_of(graph, is_global=False) == []


def test_sizes_ops_and_fuel():
    graph = graph_of(lambda: chain(placeholder(), "abcdef"))
    least = "--tf_xla_min_cluster_size=1 "
    assert max(map(len, clusters_of(graph, least + "--tf_xla_max_cluster_size=2"))) == 2
    assert clusters_of(graph, least + "--tf_xla_ops_to_cluster=Sin,Cos") == [["a", "b"]]
    assert clusters_of(graph, least + "--tf_xla_cluster_exclude_ops=Tanh") == [
        ["a", "b"],
        ["d", "e", "f"],
    ]
    assert clusters_of(graph, least, fuel=2) == [["a", "b"]]
    assert clusters_of(graph, least, kept=("c",)) == [["a", "b"], ["d", "e", "f"]]


def test_a_cluster_never_waits_for_itself():
    """What runs between two parts of a cluster would need the cluster, and be needed by it."""

    def build():
        first = chain(placeholder(), "abcd")
        outside = tf.numpy_function(lambda x: x, [first], tf.float32, name="outside")
        outside.set_shape([4])
        tf.add(chain(first, "efgh"), chain(outside, "ijkl"), name="m")

    found = [set(nodes) for nodes in clusters_of(graph_of(build))]
    assert len(found) == 2
    assert set().union(*found) == set("abcdefghijklm")
    before, after = sorted(found, key=lambda nodes: "a" not in nodes)
    assert set("abcd") <= before
    assert set("ijklm") <= after


@pytest.mark.parametrize("old", [True, False])
def test_branches_stay_apart(old):
    def build():
        x = placeholder()
        v1.cond(
            tf.reduce_sum(x) > 0, lambda: chain(x, "abcd"), lambda: chain(x, "efgh"), name="choice"
        )

    graph = graph_of(build, old_control_flow=old)
    found = clusters_of(graph)
    if old:
        assert [[name[-1] for name in nodes] for nodes in found] == [list("abcd"), list("efgh")]
    else:  # a functional conditional is compiled whole
        assert [name for nodes in found for name in nodes if name == "choice"] == ["choice"]


def test_merged_branches_run_when_the_condition_did():
    def build():
        x = placeholder()
        y = v1.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: tf.cos(x))
        chain(y + x, "abcd")

    graph = graph_of(build, old_control_flow=True)
    conditions = Liveness(graph).conditions
    assert conditions[graph.numbers["a"]] == conditions[graph.numbers["x"]] == frozenset()
    assert clusters_of(graph) == [["add", "a", "b", "c", "d"]]


def test_loops_stay_apart():
    def build():
        x = chain(placeholder(), "abcd")
        y = v1.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, chain(y, "efgh")), [0, x], name="w"
        )[1]
        chain(y, "ijkl")

    graph = graph_of(build, old_control_flow=True)
    found = [[name[-1] for name in nodes if name[-1] > "9"] for nodes in clusters_of(graph)]
    assert sorted(found) == [list("abcd"), list("efgh"), list("ijkl")]


def test_scopes():
    def build():
        x = placeholder()
        with tf.xla.experimental.jit_scope():
            y = chain(x, "ab")
        with tf.xla.experimental.jit_scope():
            z = chain(y, "cd")
        with tf.xla.experimental.jit_scope(compile_ops=False):
            chain(z, "ef")

    graph = graph_of(build)
    assert clusters_of(graph, is_global=False) == [["a", "b"], ["c", "d"]]
    assert clusters_of(graph) == [list("abcd")]


def test_devices_and_references_stay_outside():
    def build():
        old = v1.Variable([1.0] * 4, use_resource=False, name="old")
        new = v1.Variable([1.0] * 4, use_resource=True, name="new")
        chain(tf.add(old, new.read_value(), name="s"), "abcd")
        with tf.device("/GPU:0"):
            chain(placeholder(), "efgh")

    graph = graph_of(build)
    (found,) = clusters_of(graph)
    assert {"s", "a", "b", "c", "d"} <= set(found)
    ops = {graph.nodes[graph.numbers[name]].op for name in found}
    assert not ops & {"ReadVariableOp", "VariableV2"}
    assert "old/read" not in found


def test_random_ops_and_assertions_stay_outside():
    def build():
        x = tf.random.normal([4], name="normal")
        with tf.control_dependencies([tf.debugging.Assert(x[0] < 100.0, [x])]):
            chain(tf.random.stateless_normal([4], [1, 2]) + x, "abcd")

    graph = graph_of(build)
    names = {name for nodes in clusters_of(graph) for name in nodes}
    ops = {graph.nodes[graph.numbers[name]].op for name in names}
    assert "StatelessRandomNormalV2" in ops
    assert not ops & {"RandomStandardNormal", "Assert"}
    assert {"a", "b", "c", "d"} <= names

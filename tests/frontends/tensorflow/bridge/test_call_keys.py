# SPDX-License-Identifier: Apache-2.0
"""Arrays, keywords, structures and plain values: calls with them are remembered like any other."""

import gc
import weakref
from collections import namedtuple

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function

from ingot.frontends.tensorflow.api import call_keys

X = np.array([1.0, 2.0, 3.0], np.float32)
T = tf.constant(X)
V = tf.Variable(2.0)
Pair = namedtuple("Pair", "first second")


@pytest.fixture
def ordinary(compiled, monkeypatch):
    """Note each concrete function that TensorFlow's own dispatch runs."""
    calls = []
    original = concrete_function.ConcreteFunction._call_flat

    def call(function, *args, **kwargs):
        calls.append(function)
        return original(function, *args, **kwargs)

    monkeypatch.setattr(concrete_function.ConcreteFunction, "_call_flat", call)
    return calls


def total(*args, **kwargs):
    found = tf.nest.flatten((args, [kwargs[name] for name in sorted(kwargs)]))
    return sum((k + 1.0) * tf.cast(item, tf.float32) for k, item in enumerate(found)) * V


CALLS = {
    "array": ([X], {}),
    "arrays of several types": ([X, X.astype(np.int64), X > 1.5, X.astype(np.float64)], {}),
    "scalar": ([T, np.float32(4.0), np.int32(3), np.bool_(True)], {}),
    "keyword": ([], {"x": T}),
    "keywords in another order": ([T], {"b": 2 * T, "a": 3 * T}),
    "array by keyword": ([T], {"y": X}),
    "plain values": ([T, 2, 0.5, True], {"k": 3.5}),
    "list": ([[T, 2 * T], (3 * T,)], {}),
    "dict": ([{"b": T, "a": 2 * T, "c": [X, {"d": 3.0}]}], {}),
    "named tuple": ([Pair(T, [X])], {"k": Pair(second=2.0, first=T)}),
    "nothing in it": ([T, [], {}], {}),
    "the same twice": ([T, X, T, X], {"k": T}),
}


def other(item, number):
    return ~item if item.dtype == bool else item * (number + 2)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_remembered(ordinary, name):
    args, kwargs = CALLS[name]
    function = tf.function(total, jit_compile=True)
    for _ in range(2):
        np.testing.assert_allclose(function(*args, **kwargs), total(*args, **kwargs))
    before = len(ordinary)
    np.testing.assert_allclose(function(*args, **kwargs), total(*args, **kwargs))
    _, leaves = call_keys.key_of(args, kwargs)
    changed = [other(item, number) for number, item in enumerate(leaves)]
    args, kwargs = call_keys.with_leaves(args, kwargs, changed)
    np.testing.assert_allclose(function(*args, **kwargs), total(*args, **kwargs))
    assert len(ordinary) == before


def test_what_decides_the_trace_is_in_the_key():
    given = (0, False, 0.0, "0", None, [0], (0,), {"a": 0}, {"b": 0}, [[], 0], [0, []], [T], (T,))
    given = (*given, (T, T), Pair(T, T))
    keys = {call_keys.key_of([item], {})[0] for item in given}
    assert len(keys) == len(given)
    assert call_keys.key_of([V], {}) is None
    assert call_keys.key_of([[object()]], {}) is None
    assert call_keys.key_of([np.array(["text"])], {}) is None


def test_a_signature_of_another_type_goes_the_ordinary_way(ordinary):
    spec = [tf.TensorSpec([None], tf.float32)]
    function = tf.function(lambda x: x * V, jit_compile=True, input_signature=spec)
    for given in (X.astype(np.float64), [1.0, 2.0, 3.0], X):
        for _ in range(4):
            np.testing.assert_allclose(function(given), 2 * X)
    with pytest.raises(TypeError):
        function(tf.constant([1.0], tf.float64))


def test_an_array_that_changes_later_is_not_seen(compiled):
    function = tf.function(lambda x: (x, x + V), jit_compile=True)
    for _ in range(3):
        array = X.copy()
        same, more = function(array)
        array[:] = 9.0
        np.testing.assert_allclose(same, X)
        np.testing.assert_allclose(more, X + 2.0)


def test_calls_of_a_concrete_function_are_remembered(ordinary):
    function = tf.function(lambda x, y: {"sum": x + y, "product": x * V}, jit_compile=True)
    concrete = function.get_concrete_function(tf.TensorSpec([3]), y=tf.TensorSpec([3]))
    for call in (lambda y: concrete(T, y), lambda y: concrete(x=y, y=T), lambda y: concrete(X, y)):
        for _ in range(2):
            np.testing.assert_allclose(call(5 * T)["sum"], 6 * X)
        before = len(ordinary)
        np.testing.assert_allclose(call(7 * T)["sum"], 8 * X)
        assert len(ordinary) == before
    with tf.GradientTape() as tape:
        tape.watch(T)
        found = concrete(T, T)["product"]
    np.testing.assert_allclose(tape.gradient(found, T), [2.0, 2.0, 2.0])


def test_a_dropped_concrete_function_is_forgotten(compiled):
    def use():
        concrete = tf.function(lambda x: x + V, jit_compile=True).get_concrete_function(
            tf.TensorSpec([3])
        )
        for _ in range(3):
            concrete(T)
        return weakref.ref(concrete)

    found = use()
    gc.collect()
    assert found() is None

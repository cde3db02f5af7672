# SPDX-License-Identifier: Apache-2.0
"""Arguments that decide sizes and vary from call to call: one program takes every value."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED
from tests.frontends.tensorflow.programs.structural import CASES, Case

import ingot.tensorflow
from ingot.frontends.tensorflow.launches import launch

A = np.arange(1, 33, dtype=np.float32).reshape(16, 2)
X = tf.constant(A)
VALUES = (3, 5, 2, 7, 1, 0, 12, 6)
FEW = 3
"""Programs for `VALUES`: two for values, one for every value."""


def _x_with_gradient(function):
    def both(n):
        with tf.GradientTape() as tape:
            tape.watch(X)
            made = function(X, n)
        return made, tape.gradient(made, X)

    return both


def _loop(n):
    total = tf.zeros([n, 2])
    for _ in tf.range(n):
        total += tf.cumsum(X[:n])
    return total


def _array(n):
    array = tf.TensorArray(tf.float32, size=n)
    for index in tf.range(n):
        array = array.write(index, X[index] * 2.0)
    return array.stack()


FUNCTIONS = {
    "range": lambda n: tf.range(n) * 2,
    "fill": lambda n: tf.fill([2, n], 7.0),
    "head": lambda n: tf.nn.softmax(X[:n], 0),
    "tail": lambda n: tf.reduce_sum(X[n:], 1),
    "strided": lambda n: X[n::2] + 1.0,
    "slice": lambda n: tf.slice(X, [0, 0], [n, -1]),
    "tile": lambda n: tf.tile(X, [1, n]),
    "repeat": lambda n: tf.repeat(X, n, 0),
    "linspace": lambda n: tf.linspace(0.0, 1.0, n + 1),
    "top_k": lambda n: tf.math.top_k(X[:, 0], n).indices,
    "pad": lambda n: tf.pad(X, [[n, 1], [0, n]]),
    "one_hot": lambda n: tf.one_hot([1, 2, 3], n),
    "resize": lambda n: tf.image.resize(X[None, :, :, None], (n + 4, n + 5)),
    "nearest": lambda n: tf.image.resize(X[None, :, :, None], (n + 1, 2 * n + 3), "nearest"),
    "aligned": lambda n: tf.compat.v1.image.resize_bilinear(
        X[None, :, :, None], (n + 1, n + 2), align_corners=True
    ),
    **{
        method: lambda n, method=method: tf.image.resize(
            X[None, :, :, None], (n + 4, 2 * n + 1), method
        )
        for method in ("bicubic", "area", "lanczos3", "gaussian", "mitchellcubic")
    },
    "antialias": lambda n: tf.image.resize(X[None, :, :, None], (n + 1, n + 2), antialias=True),
    "split": lambda n: tf.split(X, [n, 16 - n]),
    "eye": lambda n: tf.eye(n),
    "diag": lambda n: tf.linalg.diag(X[:n, 0], padding_value=5.0),
    "band": lambda n: tf.linalg.band_part(tf.ones([n, n]), -1, 0),
    "superdiagonal": lambda n: tf.linalg.diag(X[:n, 1], k=1),
    "diag_part": lambda n: tf.linalg.diag_part(tf.ones([n, n + 2]) * X[:1, 1], k=1),
    "product": lambda n: tf.matmul(X[:n], X[:n], transpose_b=True),
    "random": lambda n: tf.random.stateless_normal([n, 2], [1, 2]),
    "sort": lambda n: tf.sort(X[:n], 0, "DESCENDING"),
    "concat": lambda n: tf.concat([X[n:], X[:n]], 0),
    "branches": lambda n: tf.cond(n > 4, lambda: X[:n], lambda: X[n:]),
    "loop": _loop,
    "array": _array,
    "gradient of a head": _x_with_gradient(lambda x, n: tf.reduce_sum(x[:n] ** 2)),
    "gradient of a window": _x_with_gradient(lambda x, n: tf.reduce_sum(x[n : n + 3] ** 2)),
    "gradient of a stride": _x_with_gradient(lambda x, n: tf.reduce_sum(x[1:n:3] ** 2)),
    "gradient of a tile": _x_with_gradient(lambda x, n: tf.reduce_sum(tf.tile(x, [n, 1]) ** 2)),
    **{
        f"gradient of {method}": _x_with_gradient(
            lambda x, n, method=method: tf.image.resize(x[None, :, :, None], (n + 4, n + 1), method)
        )
        for method in ("bilinear", "nearest", "bicubic", "lanczos3")
    },
    "gradient of a part": _x_with_gradient(
        lambda x, n: tf.image.resize(x[None, : n + 2, :, None], (9, n + 1), "bicubic")
    ),
    "gradient of a pad": _x_with_gradient(lambda x, n: tf.reduce_sum(tf.pad(x, [[n, 0], [0, 0]]))),
}


def _equal(got, wanted):
    got, wanted = tf.nest.flatten(got), tf.nest.flatten(wanted)
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_program_takes_every_value(name):
    function = FUNCTIONS[name]
    plain, compiled = tf.function(function), tf.function(function, jit_compile=True)
    for n in VALUES:
        _equal(compiled(tf.constant(n)), plain(tf.constant(n)))
    assert 0 < len(COMPILED) <= FEW


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_from_the_second_value_on(case: Case, monkeypatch):
    monkeypatch.setattr(launch, "_MOST_VALUES", 1)
    plain = tf.function(case.function, reduce_retracing=True)
    compiled = tf.function(case.function, jit_compile=True, reduce_retracing=True)
    for value in (*case.values, *case.values):
        x, n = tf.constant(case.x), tf.constant(value)
        _equal(compiled(x, n), plain(x, n))
    assert COMPILED


def _calls(function, values=VALUES):
    """Compile for some values, and return the compiled function."""
    compiled = tf.function(function, jit_compile=True)
    for n in values:
        _equal(compiled(tf.constant(n)), function(tf.constant(n)))
    return compiled


def test_programs_for_single_values_come_first():
    others = set(ingot.tensorflow.specialisations())
    compiled = _calls(lambda n: tf.range(n), (3, 5, 7, 3))
    (found,) = [
        item for name, item in ingot.tensorflow.specialisations().items() if name not in others
    ]
    assert len(found) == FEW
    assert found[0] == ("argument 'n': any value, sizes are computed",)
    assert [lines[0][:16] for lines in found[1:]] == ["argument 'n' = 3", "argument 'n' = 5"]
    _equal(compiled(tf.constant(5)), tf.range(5))


def test_a_size_that_happens_to_be_one_is_broadcast():
    def product(n, m):
        return tf.fill([n], 2.0) * tf.fill([m], 3.0)

    compiled = tf.function(product, jit_compile=True)
    for n, m in ((5, 5), (4, 4), (3, 3), (7, 7), (1, 6), (6, 1), (1, 1), (8, 8), (1, 6)):
        _equal(compiled(tf.constant(n), tf.constant(m)), product(n, m))
    assert len(COMPILED) == FEW + 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        compiled(tf.constant(2), tf.constant(3))


def test_a_window_that_the_end_cuts():
    def window(n):
        return X[n : n + 4] * 2.0

    compiled = _calls(window, (0, 2, 4, 6, 8))
    assert len(COMPILED) == FEW
    for n in (14, 16, 14, 1):
        _equal(compiled(tf.constant(n)), window(n))


def test_an_error_of_the_program_is_told():
    @tf.function(jit_compile=True)
    def f(n):
        tf.debugging.assert_less(n, 10, "too many")
        return tf.reshape(tf.range(n), [2, -1])

    for n in (2, 4, 6, 8):
        assert f(tf.constant(n)).shape == [2, n // 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="too many"):
        f(tf.constant(12))
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(tf.constant(5))
    assert f(tf.constant(6)).shape == [2, 3]


def test_variables_of_a_program_that_another_one_follows():
    """What fails for a value leaves the variables to the program for that value."""
    variable = tf.Variable(tf.zeros([16, 2]))

    @tf.function(jit_compile=True)
    def step(n):
        variable.assign_add(tf.ones([16, 2]))
        part = X[n : n + 4]
        variable[:1].assign(variable[:1] + tf.reduce_sum(part))
        return part

    total = np.zeros([16, 2], np.float32)
    for n in (0, 2, 4, 6, 14, 15, 6):
        total += 1
        total[:1] += A[n : n + 4].sum()
        _equal(step(tf.constant(n)), tf.constant(A[n : n + 4]))
    np.testing.assert_allclose(variable, total)


def test_a_variable_that_holds_a_size():
    size = tf.Variable(3)
    compiled = tf.function(lambda: X[:size] * tf.cast(size, tf.float32), jit_compile=True)
    for n in VALUES:
        size.assign(n)
        _equal(compiled(), tf.constant(A[:n] * n))
    assert len(COMPILED) == FEW


def test_structure_is_still_specialised():
    compiled = tf.function(lambda n, axis: tf.concat([X[:n], X[:n]], axis), jit_compile=True)
    for n in VALUES:
        for axis in (0, 1):
            want = np.concatenate([A[:n], A[:n]], axis)
            _equal(compiled(tf.constant(n), tf.constant(axis)), tf.constant(want))
    assert len(COMPILED) < len(VALUES)


def test_a_keras_model_that_takes_a_length():
    class Reader(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = tf.keras.layers.Dense(4)

        def call(self, x, count):
            return tf.reduce_mean(self.hidden(x[:, :count]), 1)

    model, x = Reader(), tf.constant(A[None])
    compiled = tf.function(lambda count: model(x, count=count), jit_compile=True)
    for n in (3, 5, 2, 7, 1, 12):
        _equal(compiled(tf.constant(n)), model(x, count=n))
    assert len(COMPILED) == FEW

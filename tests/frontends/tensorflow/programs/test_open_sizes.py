# SPDX-License-Identifier: Apache-2.0
"""Sizes that TensorFlow leaves open: symbolic where that can be, and else compiled for the call."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED, check, compilations_of

import ingot.tensorflow
from ingot.frontends.tensorflow.lowering import entry

LAYERS = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _trained(make, specs, batches):
    """Return the program that trains a model by one function of open sizes."""

    def program(jit):
        model = make()
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)

        @tf.function(jit_compile=jit, input_signature=specs)
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = LOSS(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        losses = [step(*map(tf.constant, batch)) for batch in batches]
        return losses, [variable.numpy() for variable in model.variables]

    return program


def _images(*sizes):
    random = np.random.default_rng(0)
    return [
        (
            random.normal(size=(2, height, width, 3)).astype(np.float32),
            random.integers(0, 5, (2, height, width)),
        )
        for height, width in sizes
    ]


def _words(*counts):
    random = np.random.default_rng(0)
    return [(random.integers(0, 20, (2, n)), random.integers(0, 20, (2, n))) for n in counts]


def _segmenter():
    image = keras.Input((None, None, 3))
    x = LAYERS.Conv2D(4, 3, padding="same", activation="relu")(image)
    return keras.Model(image, LAYERS.Conv2D(5, 1)(x))


def _language_model():
    words = keras.Input((None,), dtype="int64")
    x = LAYERS.Embedding(20, 8)(words)
    x = LAYERS.LayerNormalization()(x + LAYERS.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    return keras.Model(words, LAYERS.Dense(20)(x))


def test_images_of_any_size():
    specs = [tf.TensorSpec([None, None, None, 3]), tf.TensorSpec([None, None, None], tf.int64)]
    check(_trained(_segmenter, specs, _images((8, 8), (6, 10), (8, 8), (6, 10))))
    # Filter gradients need the image's size; the batch stays open.
    assert len(COMPILED) == 2
    params = [item.executable.program.info.params[0].dims for item in COMPILED]
    assert params == [(None, 8, 8, 3), (None, 6, 10, 3)]


def test_texts_of_any_length():
    specs = [tf.TensorSpec([None, None], tf.int64), tf.TensorSpec([None, None], tf.int64)]
    check(_trained(_language_model, specs, _words(5, 7, 1, 5)))
    assert len(COMPILED) == 1


def test_sizes_that_only_have_equal_products():
    spec = tf.TensorSpec([None, None])

    @tf.function(jit_compile=True, input_signature=[spec, spec])
    def f(x, y):
        return tf.reshape(x, [-1]) + tf.reshape(y, [-1])

    for left, right in (((2, 3), (2, 3)), ((4, 5), (4, 5)), ((2, 6), (3, 4)), ((2, 6), (3, 4))):
        np.testing.assert_array_equal(f(tf.ones(left), tf.ones(right)), np.full(np.prod(left), 2.0))
    assert len(COMPILED) == 2
    lines = [found for name, found in ingot.tensorflow.specialisations().items() if "_f_" in name]
    assert lines[0][0] == ()
    assert "size 0 of argument 'x' = 2" in lines[0][1][0]


def test_a_shuffle_copies_no_array_for_each_row():
    def program(jit):
        @tf.function(jit_compile=jit)
        def shuffle_many(x):
            return tf.random.experimental.stateless_shuffle(x, [1, 2])

        return shuffle_many(tf.range(3000))

    check(program)
    (made,) = compilations_of("shuffle_many")
    computations = made.executable.as_text("hlo").split("\n}\n")
    (loop,) = (part for part in computations if " while(" in part)
    name = loop.partition(", body=")[2].partition(",")[0]
    (body,) = (part for part in computations if part.strip().startswith(f"{name} "))
    assert "[3000]" in body
    assert " copy(" not in body


def test_a_shuffle_of_any_size():
    def program(jit):
        spec = [tf.TensorSpec([None, 2])]
        shuffle = tf.function(tf.random.shuffle, jit_compile=jit, input_signature=spec)
        return [shuffle(tf.reshape(tf.range(2.0 * rows), [rows, 2])) for rows in (1, 7, 0, 10)]

    check(program)


def _differences(x):
    n = tf.shape(x)[1]
    parts = [(n - 9) // 2, (n - 9) % 4, (9 - n) // 4, (9 - n) % 4, -(n // 2) // 3, (n - 9) // -2]
    return tf.image.resize_with_crop_or_pad(x, 4, 9), tf.maximum((n - 9) // 2, 0), tf.stack(parts)


def _pool_gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool2d(x, 2, 1, "SAME")
    return tape.gradient(y, x, tf.sin(y))


@pytest.mark.parametrize("function", [_differences, _pool_gradient])
def test_images_of_any_size_and_what_is_computed_of_it(function):
    def program(jit):
        spec = [tf.TensorSpec([None] * 4)]
        f = tf.function(function, jit_compile=jit, input_signature=spec)
        return [f(images) for images, _ in _images((6, 6), (3, 12), (9, 5))]

    check(program)


def test_more_indices_than_dimensions():
    """TensorFlow's words first, where it knew no rank before the call."""
    f = tf.function(
        lambda x: x[1, ..., :2, 0], jit_compile=True, input_signature=[tf.TensorSpec(None)]
    )
    np.testing.assert_array_equal(f(tf.ones([2, 3, 1])), np.ones(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="input has only 2 dims"):
        f(tf.ones([2, 3]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.reshape(x, [-1, 4]),
        lambda x: x[2:],
        lambda x: x[:-3],
        lambda x: tf.reshape(x, [2, -1]) + tf.ones([2, 4]),
        lambda x: tf.linalg.diag_part(tf.linalg.diag(x), k=0),
        lambda x: tf.signal.fft(tf.cast(x, tf.complex64)),
        lambda x: tf.split(x, 2),
        lambda x: tf.image.resize(x[None, :, None, None], [4, 4]),
        lambda x: tf.nn.max_pool1d(x[None, :, None], 2, 2, "SAME"),
        lambda x: tf.cumsum(x, reverse=True)[::-2],
        lambda x: tf.unstack(tf.reshape(x, [4, -1])),
    ],
)
def test_what_open_sizes_may_break(function):
    spec = [tf.TensorSpec([None])]
    plain = tf.function(function, input_signature=spec)
    compiled = tf.function(function, input_signature=spec, jit_compile=True)
    for size in (8, 12, 1, 2, 8):
        x = tf.range(float(size)) + 1.0
        try:
            want = tf.nest.flatten(plain(x))
        except tf.errors.OpError:
            with pytest.raises(tf.errors.OpError):
                compiled(x)
            continue
        for have, right in zip(tf.nest.flatten(compiled(x)), want, strict=True):
            np.testing.assert_allclose(have, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, y, i: tf.fill([2], 3.0),
        lambda x, y, i: y + tf.cast(i, tf.float32),
        lambda x, y, i: tf.concat([x, y[: i + 1]], 0),
        lambda x, y, i: x[: tf.shape(x)[0] - 1],
        lambda x, y, i: tf.cond(i < 2, lambda: x, lambda: tf.fill([2], 3.0)),
        lambda x, y, i: tf.while_loop(
            lambda k, a: k < 2,
            lambda k, a: (k + 1, y),
            (0, x),
            (tf.TensorShape([]), tf.TensorShape([None])),
        )[1],
    ],
    ids=["constant", "other", "growing", "shrinking", "branch", "nested"],
)
@pytest.mark.parametrize("limit", [None, 3])
def test_a_loop_gives_another_size_than_it_takes(body, limit):
    def run(x, y):
        invariants = (tf.TensorShape([]), tf.TensorShape([None]))
        return tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, body(a, y, i)), (0, x), invariants,
            maximum_iterations=limit,
        )[1]  # fmt: skip

    compiled = tf.function(run, input_signature=[tf.TensorSpec([None])] * 2, jit_compile=True)
    for n, m in ((5, 4), (4, 6), (7, 7)):
        x, y = tf.range(float(n)), -tf.range(float(m))
        np.testing.assert_array_equal(compiled(x, y), run(x, y))


@pytest.mark.parametrize(("last", "needed"), [(3, 2), (1, 3)])
def test_all_equal_sizes_are_learnt_at_once(last, needed, monkeypatch):
    """Each input begins with a size of its own; an input of one element is no equal one."""
    attempts = []
    original = entry._attempt
    monkeypatch.setattr(entry, "_attempt", lambda *args: attempts.append(1) or original(*args))

    def program(jit):
        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None])] * 9)
        def added(*inputs):
            total = inputs[0]
            for item in inputs[1:]:
                total = tf.sin(total * item)
            return total

        return added(*[tf.fill([3], 0.1 * at) for at in range(8)], tf.fill([last], 2.0))

    check(program)
    assert len(attempts) == needed


@pytest.mark.parametrize("dims", [[None, None], [None, 18, 18]], ids=str)
def test_square_roots(dims):
    def program(jit):
        signature = [tf.TensorSpec(dims, tf.float32)]
        root = tf.function(tf.linalg.sqrtm, jit_compile=jit, input_signature=signature)
        random = np.random.default_rng(0)
        sizes = [(n, n) for n in (1, 4, 19)] if len(dims) == 2 else [(n, 18, 18) for n in (1, 3)]
        return [root(random.normal(size=size) + 2 * size[-1] * np.eye(size[-1])) for size in sizes]

    check(program)


SIGNALS = {
    "frames": lambda x: tf.signal.frame(x, 10, 4),
    "padded frames": lambda x: tf.signal.frame(x, 10, 4, pad_end=True),
    "there and back": lambda x: tf.signal.inverse_stft(
        tf.signal.stft(x, 64, 16, fft_length=64), 64, 16
    ),
    "parts of a shape": lambda x: tf.reshape(x, tf.concat(tf.split(tf.shape(x), 2)[::-1], 0)),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_of_any_length_are_one_program(name):
    def program(jit):
        signature = [tf.TensorSpec([None, None])]
        function = tf.function(SIGNALS[name], jit_compile=jit, input_signature=signature)
        random = np.random.default_rng(0)
        return [function(random.normal(size=size)) for size in ((1, 200), (3, 301), (2, 64))]

    check(program)
    assert len(COMPILED) == 1

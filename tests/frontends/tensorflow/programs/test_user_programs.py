# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them, each of several parts of TensorFlow: all compiled, all equal.

Strict mode: nothing of them stays with TensorFlow.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, counting_compiler, numbers

from ingot.frontends.tensorflow import hook

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def strict(compiled):
    hook.disable()
    hook.enable(counting_compiler, strict=True)


def test_ragged_words_and_recurrent_layers_with_masks():
    """Widths of batches are computed, and gradients of both loops add up lists of such rows."""

    def program(jit):
        words = keras.Input((None,), dtype="int32")
        x = layers.Embedding(30, 8, mask_zero=True)(words)
        x = layers.Bidirectional(layers.GRU(6, return_sequences=True))(x)
        model = keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
        optimizer = keras.optimizers.Nadam(1e-2)
        optimizer.build(model.trainable_variables)

        @tf.function(jit_compile=jit, reduce_retracing=True)
        def step(words, labels):
            with tf.GradientTape() as tape:
                logits = model(words.to_tensor())
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        batches = ([[1, 2, 3], [4, 5]], [[1], [2, 3, 4, 5, 6]], [[7, 8, 9, 1], [3]], [[2, 2], [4]])
        labels = tf.constant([0, 1])
        return [step(tf.ragged.constant(batch, dtype=tf.int32), labels) for batch in batches]

    check(program)


def test_wide_and_deep_on_sparse_features():
    def batch(seed):
        rng = np.random.default_rng(seed)
        is_there = rng.random((5, 7)) < 0.4
        is_there[2] = False
        indices = np.argwhere(is_there)
        words = tf.SparseTensor(indices, rng.integers(0, 50, len(indices)), (5, 7))
        weights = words.with_values(rng.random(len(indices)).astype(np.float32))
        return words, weights

    def program(jit):
        deep, wide = tf.Variable(numbers(50, 6)), tf.Variable(tf.zeros([50, 1]))

        @tf.function(jit_compile=jit)
        def step(words, weights, labels):
            with tf.GradientTape() as tape:
                found = tf.nn.safe_embedding_lookup_sparse(deep, words, weights, combiner="sqrtn")
                linear = tf.nn.safe_embedding_lookup_sparse(wide, words, weights, combiner="sum")
                logits = tf.reduce_sum(found, 1) + linear[:, 0]
                losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_mean(losses)
            for table, slope in zip((deep, wide), tape.gradient(loss, [deep, wide]), strict=True):
                table.scatter_sub(tf.IndexedSlices(0.1 * slope.values, slope.indices))
            return loss

        labels = tf.constant([0.0, 1.0, 0.0, 1.0, 1.0])
        return [*(step(*batch(seed), labels) for seed in range(4)), deep, wide]

    check(program)


def test_attention_along_the_edges_of_sparse_graphs():
    def program(jit):
        weights = tf.Variable(numbers(5, 3))

        @tf.function(jit_compile=jit)
        def step(graph, features):
            with tf.GradientTape() as tape:
                degrees = tf.sparse.reduce_sum(graph, 1)
                attention = tf.sparse.softmax(graph * tf.math.rsqrt(degrees)[:, None])
                looped = tf.sparse.add(attention, tf.sparse.eye(4))
                hidden = tf.sparse.sparse_dense_matmul(looped, features @ weights)
                loss = tf.reduce_mean(hidden**2)
            weights.assign_sub(0.1 * tape.gradient(loss, weights))
            return loss, tf.sparse.to_dense(looped)

        edges = [[0, 1], [1, 0], [1, 2], [2, 1], [3, 3]]
        graph = tf.SparseTensor(edges, [1.0, 2.0, 0.5, 1.0, 3.0], [4, 4])
        return [step(graph, tf.constant(numbers(4, 5))) for _ in range(3)]

    check(program)


def test_pyramids_of_images_of_any_size():
    def program(jit):
        convolution = layers.Conv2D(4, 3, padding="same")
        convolution.build((None, None, None, 3))

        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None, None, None, 3])])
        def levels(images):
            with tf.GradientTape() as tape:
                tape.watch(images)
                fine = convolution(images)
                size = tf.shape(fine)[1:3]
                coarse = tf.nn.avg_pool2d(fine, 2, 2, "SAME")
                merged = fine * tf.image.resize(coarse, size, "bicubic")
                large = tf.image.resize(coarse, size * 2, "lanczos3", antialias=True)
                small = tf.image.resize(fine, [7, 9], "nearest")
                loss = tf.add_n([tf.reduce_sum(part**2) for part in (merged, large, small)])
            mean = tf.image.resize(fine, size // 2 + 1, "area")
            return loss, tape.gradient(loss, images), mean

        return [levels(tf.constant(numbers(2, *size, 3))) for size in ((8, 10), (9, 7), (13, 5))]

    check(program)


def test_beam_search():
    words, beams, steps = 11, 3, 8
    table, out, recurrent = numbers(words, 16), numbers(16, words), numbers(16, 16)

    def program(jit):
        @tf.function(jit_compile=jit)
        def search(state):
            batch = tf.shape(state)[0]
            ended = tf.one_hot(1, words, on_value=0.0, off_value=-1e9)

            def goes_on(step, found, scores, state, done):
                return (step < steps) & ~tf.reduce_all(done)

            def body(step, found, scores, state, done):
                last = tf.where(step > 0, found[:, :, tf.maximum(step - 1, 0)], 0)
                state = tf.tanh(tf.gather(table, last) + state @ recurrent * 0.4)
                chances = tf.nn.log_softmax(state @ out * 0.7)
                chances = tf.where(done[:, :, None], ended, chances)
                total = tf.reshape(scores[:, :, None] + chances, [batch, beams * words])
                scores, index = tf.math.top_k(total, beams)
                parents, word = index // words, index % words
                found, state, done = (
                    tf.gather(part, parents, batch_dims=1) for part in (found, state, done)
                )
                turned = tf.transpose(found, [2, 0, 1])
                turned = tf.tensor_scatter_nd_update(turned, [[step]], [word])
                found = tf.transpose(turned, [1, 2, 0])
                return step + 1, found, scores, state, done | (word == 1)

            start = (
                0,
                tf.zeros([batch, beams, steps], tf.int32),
                tf.tile([[0.0] + [-1e9] * (beams - 1)], [batch, 1]),
                tf.repeat(state[:, None], beams, 1),
                tf.zeros([batch, beams], tf.bool),
            )
            step, found, scores, *_ = tf.while_loop(goes_on, body, start)
            return step, found, scores

        return [search(tf.constant(numbers(2, 16, seed=seed))) for seed in range(3)]

    check(program)


def test_a_kalman_filter_by_scan():
    def program(jit):
        move = tf.constant([[1.0, 0.1], [0.0, 1.0]])
        look = tf.constant([[1.0, 0.0]])

        @tf.function(jit_compile=jit)
        def run(seen, noise):
            def advance(state, seen):
                mean, spread, _ = state
                mean = tf.linalg.matvec(move, mean)
                spread = move @ spread @ tf.transpose(move) + 0.01 * tf.exp(noise) * tf.eye(2)
                total = look @ spread @ tf.transpose(look) + 0.1
                gain = tf.transpose(tf.linalg.solve(total, look @ spread))
                rest = seen - tf.linalg.matvec(look, mean)
                mean += tf.linalg.matvec(gain, rest)
                spread -= gain @ look @ spread
                distance = tf.reduce_sum(rest * tf.linalg.matvec(tf.linalg.inv(total), rest))
                return mean, spread, -0.5 * (tf.linalg.logdet(total) + distance)

            with tf.GradientTape() as tape:
                tape.watch(noise)
                start = (tf.zeros(2), tf.eye(2), tf.constant(0.0))
                means, spreads, chances = tf.scan(advance, seen, start)
                loss = -tf.reduce_sum(chances)
            return means, spreads, loss, tape.gradient(loss, noise)

        return run(tf.constant(np.cumsum(numbers(30, 1), 0)), tf.constant(0.3))

    check(program)


def test_an_audio_model_that_follows_spectra():
    def program(jit):
        wave = tf.Variable(numbers(2, 1024))
        wanted = tf.constant(numbers(2, 1024, seed=3))

        @tf.function(jit_compile=jit)
        def step():
            with tf.GradientTape() as tape:
                loss = tf.constant(0.0)
                for length in (64, 128, 256):
                    sizes = [tf.abs(tf.signal.stft(x, length, length // 4)) for x in (wave, wanted)]
                    loss += tf.reduce_mean(tf.abs(sizes[0] - sizes[1]))
                    logs = [tf.math.log(size + 1e-3) for size in sizes]
                    loss += tf.reduce_mean(tf.abs(logs[0] - logs[1]))
            wave.assign_sub(0.1 * tape.gradient(loss, wave))
            return loss

        return [*(step() for _ in range(4)), wave]

    check(program)


def test_meta_learning_with_gradients_of_gradients_in_a_map():
    def program(jit):
        weights = [tf.Variable(value) for value in (numbers(1, 16) / 2, numbers(16, 1) / 2)]
        rate = tf.Variable(0.05)

        def loss_of(inputs, labels, given):
            first, second = given
            return tf.reduce_mean((tf.tanh(inputs @ first) @ second - labels) ** 2)

        def adapted(task):
            inputs, labels, others, other_labels = task
            given = [tf.convert_to_tensor(value) for value in weights]
            for _ in range(2):
                with tf.GradientTape() as tape:
                    tape.watch(given)
                    loss = loss_of(inputs, labels, given)
                slopes = tape.gradient(loss, given)
                given = [value - rate * slope for value, slope in zip(given, slopes, strict=True)]
            return loss_of(others, other_labels, given)

        @tf.function(jit_compile=jit)
        def step(*tasks):
            trained = [*weights, rate]
            with tf.GradientTape() as tape:
                losses = tf.map_fn(adapted, tasks, fn_output_signature=tf.float32)
                loss = tf.reduce_mean(losses)
            for variable, slope in zip(trained, tape.gradient(loss, trained), strict=True):
                variable.assign_sub(0.01 * slope)
            return loss

        seeds = range(3)
        batches = [[numbers(3, 8, 1, seed=10 * seed + n) for n in range(4)] for seed in seeds]
        return [*(step(*map(tf.constant, batch)) for batch in batches), rate]

    check(program)


def test_a_hamiltonian_sampler():
    def program(jit):
        root = numbers(3, 3)
        precision = tf.constant(root @ root.T + np.eye(3, dtype=np.float32))

        def log_density(x):
            return -0.5 * tf.einsum("bi,ij,bj->b", x, precision, x)

        def slope(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = log_density(x)
            return tape.gradient(value, x)

        @tf.function(jit_compile=jit)
        def run(x, seed):
            chain, accepted = tf.TensorArray(tf.float32, 20), tf.zeros([4])
            for index in tf.range(20):
                folded = tf.random.experimental.stateless_fold_in(seed, index)
                first, second = tf.unstack(tf.random.experimental.stateless_split(folded, 2))
                start = tf.random.stateless_normal([4, 3], first)
                place, speed = x, start + 0.05 * slope(x)
                for _ in range(5):
                    place += 0.1 * speed
                    speed += 0.1 * slope(place)
                speed -= 0.05 * slope(place)
                energy = 0.5 * (tf.reduce_sum(start**2, 1) - tf.reduce_sum(speed**2, 1))
                gain = log_density(place) - log_density(x) + energy
                is_taken = tf.math.log(tf.random.stateless_uniform([4], second)) < gain
                x = tf.where(is_taken[:, None], place, x)
                accepted += tf.cast(is_taken, tf.float32)
                chain = chain.write(index, x)
            found = chain.stack()
            return found, accepted, tf.math.reduce_variance(found, [0, 1])

        return run(tf.zeros([4, 3]), tf.constant([1, 2]))

    check(program)


def test_policy_optimisation_over_shuffled_batches():
    def program(jit):
        policy = keras.Sequential([keras.Input((6,)), layers.Dense(16, "tanh"), layers.Dense(4)])
        optimizer = keras.optimizers.Adam(3e-3)
        trained = policy.trainable_variables
        optimizer.build(trained)

        @tf.function(jit_compile=jit)
        def advantages(rewards, values, ends):
            def back(after, now):
                reward, value, following, end = now
                rest = reward + 0.99 * following * (1 - end) - value
                return rest + 0.94 * (1 - end) * after

            following = tf.concat([values[1:], [0.0]], 0)
            rows = (rewards, values, following, ends)
            found = tf.scan(back, rows, tf.constant(0.0), reverse=True)
            return (found - tf.reduce_mean(found)) / tf.math.reduce_std(found)

        @tf.function(jit_compile=jit)
        def update(states, actions, before, gains, seed):
            total = tf.constant(0.0)
            for epoch in tf.range(2):
                key = tf.stack([seed, epoch])
                order = tf.random.experimental.stateless_shuffle(tf.range(64), key)
                for batch in tf.range(4):
                    rows = order[batch * 16 : (batch + 1) * 16]
                    gain = tf.gather(gains, rows)
                    with tf.GradientTape() as tape:
                        logits = tf.nn.log_softmax(policy(tf.gather(states, rows)))
                        now = tf.gather(logits, tf.gather(actions, rows), batch_dims=1)
                        ratio = tf.exp(now - tf.gather(before, rows))
                        cut = tf.clip_by_value(ratio, 0.8, 1.2)
                        loss = -tf.reduce_mean(tf.minimum(ratio * gain, cut * gain))
                    slopes, _ = tf.clip_by_global_norm(tape.gradient(loss, trained), 0.5)
                    optimizer.apply_gradients(zip(slopes, trained, strict=True))
                    total += loss
            return total

        states, actions = tf.constant(numbers(64, 6)), tf.constant(np.arange(64) % 4)
        ends = tf.constant((np.arange(64) % 13 == 12).astype(np.float32))
        gains = advantages(tf.constant(numbers(64)), tf.constant(numbers(64, seed=1)), ends)
        before = tf.gather(tf.nn.log_softmax(policy(states)), actions, batch_dims=1)
        return gains, [update(states, actions, before, gains, tf.constant(n)) for n in range(2)]

    check(program)

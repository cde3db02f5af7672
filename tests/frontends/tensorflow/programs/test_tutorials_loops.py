# SPDX-License-Identifier: Apache-2.0
"""Control, physics and chance as TensorFlow's tutorials write them: loops inside the function."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tests.frontends.tensorflow.programs.beside import check, numbers

pytestmark = pytest.mark.slow


def test_deep_q_learning_step():
    rng = np.random.default_rng(0)
    states, next_states = numbers(64, 4), numbers(64, 4, seed=1)
    actions = rng.integers(0, 2, 64).astype(np.int32)
    rewards = rng.normal(size=64).astype(np.float32)
    done = rng.integers(0, 2, 64).astype(bool)

    def program(jit):
        def q_network():
            return keras.Sequential(
                [layers.Input((4,)), layers.Dense(24, activation="relu"), layers.Dense(2)]
            )

        model, target = q_network(), q_network()
        target.set_weights(model.get_weights())
        optimizer = keras.optimizers.Adam(1e-2, clipnorm=1.0)
        optimizer.build(model.trainable_variables)
        loss_function = keras.losses.Huber()

        @tf.function(jit_compile=jit)
        def update(states, actions, rewards, next_states, done):
            future = tf.reduce_max(target(next_states), axis=1)
            updated = rewards + 0.99 * future
            updated = tf.where(done, -tf.ones_like(updated), updated)
            masks = tf.one_hot(actions, 2)
            with tf.GradientTape() as tape:
                q_values = model(states)
                q_action = tf.reduce_sum(tf.multiply(q_values, masks), axis=1)
                loss = loss_function(updated, q_action)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            best = tf.argmax(q_values, axis=1, output_type=tf.int32)
            return loss, tf.gather_nd(q_values, tf.stack([tf.range(64), best], axis=1))

        @tf.function(jit_compile=jit)
        def soften(rate):
            for old, new in zip(target.variables, model.variables, strict=True):
                old.assign((1.0 - rate) * old + rate * new)

        found = []
        for _ in range(10):
            found.append(update(states, actions, rewards, next_states, done))
            soften(0.1)
        return found

    check(program)


def test_actor_critic_returns():
    """Expected returns by a reversed scan, as the CartPole tutorial computes them."""

    def program(jit):
        @tf.function(jit_compile=jit)
        def get_expected_return(rewards, gamma=0.99, standardize=True):
            n = tf.shape(rewards)[0]
            returns = tf.TensorArray(dtype=tf.float32, size=n)
            rewards = tf.cast(rewards[::-1], dtype=tf.float32)
            discounted_sum = tf.constant(0.0)
            discounted_sum_shape = discounted_sum.shape
            for i in tf.range(n):
                reward = rewards[i]
                discounted_sum = reward + gamma * discounted_sum
                discounted_sum.set_shape(discounted_sum_shape)
                returns = returns.write(i, discounted_sum)
            returns = returns.stack()[::-1]
            if standardize:
                mean, std = tf.math.reduce_mean(returns), tf.math.reduce_std(returns)
                returns = (returns - mean) / (std + 1e-7)
            return returns

        return [get_expected_return(tf.constant(numbers(n))) for n in (3, 20)]

    check(program)


def test_neural_ode_by_a_while_loop():
    def program(jit):
        w1, w2 = tf.Variable(numbers(2, 16) * 0.5), tf.Variable(numbers(16, 2) * 0.5)

        def field(y):
            return tf.matmul(tf.tanh(tf.matmul(y**3, w1)), w2)

        def rk4(y, h):
            k1 = field(y)
            k2 = field(y + h / 2 * k1)
            k3 = field(y + h / 2 * k2)
            k4 = field(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        @tf.function(jit_compile=jit)
        def step(start, wanted):
            with tf.GradientTape() as tape:
                _, y = tf.while_loop(
                    lambda t, y: t < 0.95,
                    lambda t, y: (t + 0.1, rk4(y, 0.1)),
                    [tf.constant(0.0), start],
                    maximum_iterations=20,
                )
                loss = tf.reduce_mean(tf.abs(y - wanted))
            grads = tape.gradient(loss, [w1, w2])
            for v, g in zip([w1, w2], grads, strict=True):
                v.assign_sub(0.05 * g)
            return loss

        start = tf.constant(numbers(8, 2))
        return [step(start, start * 0.5) for _ in range(5)], w1, w2

    check(program)


def heat(u, steps):
    for _ in tf.range(steps):
        around = tf.roll(u, 1, 0) + tf.roll(u, -1, 0) + tf.roll(u, 1, 1) + tf.roll(u, -1, 1)
        u = u + 0.1 * (around - 4.0 * u)
    return u


def bodies(position, velocity, mass, steps):
    for _ in tf.range(steps):
        between = position[None, :, :] - position[:, None, :]
        distance = tf.reduce_sum(between**2, axis=-1) + 0.01
        force = between * (mass[None, :, None] / distance[:, :, None] ** 1.5)
        velocity += 0.01 * tf.reduce_sum(force, axis=1)
        position += 0.01 * velocity
    energy = 0.5 * tf.reduce_sum(mass * tf.reduce_sum(velocity**2, axis=1))
    return position, velocity, energy


def life(board, steps):
    places = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
    for _ in tf.range(steps):
        count = tf.add_n([tf.roll(board, place, [0, 1]) for place in places])
        board = tf.cast((count == 3) | ((board == 1) & (count == 2)), tf.int32)
    return board


def mandelbrot(re, im):
    x, y, count = re, im, tf.zeros_like(re, tf.int32)
    for _ in tf.range(30):
        x, y = x * x - y * y + re, 2.0 * x * y + im
        count += tf.cast(x * x + y * y < 4.0, tf.int32)
    return count


BOARD = np.random.default_rng(0).integers(0, 2, (12, 12)).astype(np.int32)
GRID = np.meshgrid(np.linspace(-2.0, 0.5, 20), np.linspace(-1.0, 1.0, 16))
PHYSICS = {
    "heat": (heat, numbers(10, 12), np.int32(20)),
    "bodies": (bodies, numbers(5, 3), numbers(5, 3, seed=1), abs(numbers(5)), np.int32(20)),
    "life": (life, BOARD, np.int32(10)),
    "mandelbrot": (mandelbrot, *(axis.astype(np.float32) for axis in GRID)),
}


@pytest.mark.parametrize("kind", PHYSICS)
def test_physics_loops(kind):
    function, *arguments = PHYSICS[kind]
    check(lambda jit: tf.function(function, jit_compile=jit)(*map(tf.constant, arguments)))


def test_monte_carlo_and_random_numbers():
    def program(jit):
        @tf.function(jit_compile=jit)
        def estimate(seed):
            points = tf.random.stateless_uniform([2, 5000], seed, -1.0, 1.0)
            inside = tf.reduce_sum(points**2, axis=0) < 1.0
            return 4.0 * tf.reduce_mean(tf.cast(inside, tf.float32))

        generator = tf.random.Generator.from_seed(3)

        @tf.function(jit_compile=jit)
        def walk():
            steps = generator.normal([200])
            choice = generator.uniform([3], 0, 10, tf.int32)
            return tf.cumsum(steps), choice, tf.random.uniform([4]), tf.random.normal([3], seed=5)

        return estimate(tf.constant([1, 2])), walk(), walk(), walk()

    check(program)

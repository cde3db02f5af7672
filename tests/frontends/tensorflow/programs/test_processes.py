# SPDX-License-Identifier: Apache-2.0
"""Threads, forks, and the same bits in every run and for every thread count."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import compilations_of

ROOT = Path(__file__).parents[4]

TRAINING = """
import hashlib, sys
sys.path.insert(0, "examples")
import ingot.tensorflow
ingot.tensorflow.enable()
import keras, keras_mlp, training_step, digits
_, losses = training_step.train(30)
data = digits.load()
model = keras_mlp.make_model()
history = model.fit(data.train_images[:413], data.train_labels[:413], batch_size=64, epochs=2,
                    verbose=0).history
weights = b"".join(w.tobytes() for w in model.get_weights())
print(losses[-1].hex(), [x.hex() for x in history["loss"]], hashlib.sha256(weights).hexdigest())
"""


def trained_bits(threads):
    environment = {**os.environ, "INGOT_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", TRAINING]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_same_bits_in_every_run_and_for_every_thread_count():
    first = trained_bits(1)
    assert "0x" in first
    assert [trained_bits(threads) for threads in (1, 4)] == [first] * 2


def test_one_function_called_from_many_threads():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(tf.nn.softmax(x @ x, axis=-1) * x, axis=0)

    weights = tf.Variable(tf.zeros([64]))

    @tf.function(jit_compile=True)
    def add(x):
        weights.assign_add(x)

    x = tf.random.stateless_normal([64, 64], [1, 2])
    barrier = threading.Barrier(8)
    results, problems = [], []

    def work():
        try:
            barrier.wait()
            for _ in range(20):
                results.append(f(x).numpy().tobytes())
                add(tf.ones([64]))
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(results) == 160
    assert len(set(results)) == 1
    # Each thread compiled nothing of its own, and no addition was lost.
    assert len(compilations_of("_f_")) == len(compilations_of("_add_")) == 1
    np.testing.assert_array_equal(weights, np.full(64, 160.0))


def test_functions_of_several_threads_at_once():
    found = {}

    def work(number):
        @tf.function(jit_compile=True)
        def f(x):
            return tf.reduce_sum(tf.sin(x) * float(number))

        found[number] = float(f(tf.ones([1000])))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose([found[n] for n in range(6)], 841.47 * np.arange(6), rtol=1e-4)


def test_a_compiled_function_in_a_parallel_dataset():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(tf.sqrt(x) * tf.ones([50, 50]))

    data = tf.data.Dataset.range(40).map(
        lambda n: f(tf.cast(n, tf.float32)), num_parallel_calls=4, deterministic=True
    )
    found = np.array([float(item) for item in data])
    np.testing.assert_allclose(found, 2500 * np.sqrt(np.arange(40)), rtol=1e-5)


def test_a_loaded_extension_survives_a_fork():
    """TensorFlow itself does not run after a fork; importing and forking must not hang."""

    @tf.function(jit_compile=True)
    def f(x):
        return x + 1.0

    f(tf.ones([3]))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, hashlib.sha256(b"alive").digest())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert os.read(reader, 32) == hashlib.sha256(b"alive").digest()
    assert float(f(tf.ones([3]))[0]) == 2.0

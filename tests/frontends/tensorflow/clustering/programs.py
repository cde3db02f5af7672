# SPDX-License-Identifier: Apache-2.0
"""Programs that nobody marked for compilation; each gives arrays. Run in a process of its own.

python programs.py RESULTS.json ENABLED NAME...
"""

import json
import logging
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[4]))
from tests.xla_compilations import count

v1 = tf.compat.v1
PROGRAMS = {}
LABELS = []


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def straight():
    @tf.function
    def f(x, y):
        for _ in range(3):
            x = tf.tanh(tf.matmul(x, y) + 1.0) * 2.0
        return x, tf.reduce_sum(x), tf.shape(x)

    return [f(tf.ones([n, 4]), tf.ones([4, 4]) * 0.1) for n in (2, 2, 3)]


@program
def branches():
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > 0:
            y = tf.sin(x) * 2.0 + tf.cos(x) * x - 1.0
        else:
            y = tf.cos(x) - tf.sin(x) * tf.exp(x) + 2.0
        return y * y + tf.sqrt(tf.abs(y) + 1.0)

    return [f(tf.ones([3]) * k) for k in (1.0, -1.0, 1.0, -2.0)]


@program
def loops():
    @tf.function
    def f(x, n):
        i = 0
        for i in tf.range(n):
            x = tf.sin(x) * 0.9 + tf.cos(x) * 0.1 + tf.tanh(x) * tf.cast(i, tf.float32)
            if tf.reduce_sum(x) > 2.0:
                x = x * 0.3 - tf.exp(-x * x) * 0.5 + tf.sqrt(tf.abs(x))
        return x, i

    return [f(tf.linspace(0.0, 1.0, 7), tf.constant(k)) for k in (0, 3, 10)]


@program
def arrays():
    @tf.function
    def f(x):
        made = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(5):
            x = tf.sin(x) + tf.cos(x) * tf.cast(i, tf.float32) * 0.1
            made = made.write(i, x)
        return made.stack()

    return f(tf.ones([3]))


@program
def gradients():
    w = tf.Variable(tf.ones([4, 4]) * 0.2)

    @tf.function
    def f(x):
        with tf.GradientTape() as tape:
            y = x
            for _ in tf.range(3):
                y = tf.tanh(y @ w)
            loss = tf.reduce_mean(y**2)
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.1 * gradient)
        return loss, gradient

    return [f(tf.ones([5, 4])) for _ in range(4)] + [w]


@program
def variables():
    v, c = tf.Variable([1.0, 2.0]), tf.Variable(0)

    @tf.function
    def f(x):
        a = v * 2.0 + tf.sin(v) * x - tf.exp(-v) + v.read_value()
        v.assign(a * 0.5 + tf.tanh(a) - 0.1 * a * a)
        c.assign_add(1)
        b = v + a * 2.0 + tf.cos(v) * a - tf.sqrt(tf.abs(v))
        if c > 2:
            v.assign_add(b * 0.1)
        return a, b, c.read_value()

    return [f(tf.constant([1.0, 2.0])) for _ in range(5)] + [v, c]


@program
def sizes():
    @tf.function(input_signature=[tf.TensorSpec([None, None]), tf.TensorSpec([], tf.int32)])
    def f(x, n):
        y = tf.concat([tf.zeros([n, tf.shape(x)[1]]) + x[:1] * 2.0, x], 0)
        y = tf.nn.softmax(y * 2.0 - 1.0)
        kept = tf.boolean_mask(y, tf.reduce_sum(y * x[:1], 1) > 0.5)
        return y, tf.reduce_sum(kept * 2.0 + 1.0), tf.shape(kept)

    def x(a, b):
        return tf.reshape(tf.range(float(a * b)), [a, b]) / 10.0

    return [f(x(a, b), tf.constant(n)) for a, b, n in ((2, 3, 1), (3, 2, 2), (2, 3, 4))]


@program
def types():
    @tf.function
    def f(x, s):
        i, b, z = tf.cast(x * 10, tf.int64), tf.cast(x, tf.bfloat16), tf.complex(x, x * 2.0)
        text = tf.strings.length(tf.strings.join([s, tf.strings.as_string(i[0])]))
        return (
            i // 3 + i % 5,
            tf.cast(b * b + b, tf.float32),
            tf.abs(z * z + tf.math.conj(z)),
            text + tf.cast(i[1] * 2 + 1, tf.int32),
            tf.where(x > 0.2, x * 2.0, -x),
        )

    return [f(tf.linspace(0.0, 1.0, 6), tf.constant("a")) for _ in range(2)]


@program
def datasets():
    def element(n):
        x = tf.cast(n, tf.float32)
        return tf.reduce_sum(tf.sin(x * tf.ones([5])) * 2.0 + tf.cos(x))

    found = tf.data.Dataset.range(20).map(element, num_parallel_calls=2).batch(4)
    return [tf.reduce_sum(item) for item in found]


@program
def sessions():
    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [None, 4], name="a")
        w = v1.get_variable("w", initializer=np.full((4, 4), 0.3, "f"), use_resource=True)
        r = v1.get_variable("r", initializer=np.full((4,), 0.3, "f"), use_resource=False)
        h = tf.tanh(a @ w + r)
        h = tf.nn.relu(h * 2.0 - 0.1) + tf.sin(h)
        loss = tf.reduce_mean(h * h)
        train = v1.train.AdamOptimizer(0.1).minimize(loss)
        looped = tf.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, tf.sin(x) + tf.cos(x) * x - x * x), [0, h]
        )[1]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            steps = [
                session.run([loss, train, h], {a: np.full((3, 4), 0.1 * k)})[::2] for k in range(4)
            ]
            fed = session.run(loss, {h: np.ones((2, 4), "f")})
            more = session.run([looped, "Tanh:0"], {a: np.ones((2, 4))})
            called = session.make_callable([loss, h], feed_list=[a])(np.ones((2, 4)))
            return [*steps, fed, more, called, session.run([w, r])]


@program
def old_control_flow():
    v1.disable_control_flow_v2()
    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [4])
        c = v1.cond(
            tf.reduce_sum(a) > 0,
            lambda: tf.sin(a) * 2.0 + tf.cos(a) * a,
            lambda: tf.exp(a) - a * a + tf.tanh(a),
        )

        def body(i, x):
            inner = v1.cond(
                tf.reduce_sum(x) > 1.0,
                lambda: tf.sin(x) * 0.5 - x * 0.1,
                lambda: tf.cos(x) + tf.exp(-x) * c * 0.1,
            )
            return i + 1, inner

        s = v1.while_loop(lambda i, x: i < 4, body, [0, c])[1]
        g = v1.gradients(s, a)[0]
        with v1.Session() as session:
            found = [session.run([c, s, g], {a: np.full(4, k, "f")}) for k in (0.5, -0.5, 0.5)]
    v1.enable_control_flow_v2()
    return found


@program
def keras_training():
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(4, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    generator = np.random.default_rng(0)
    x = generator.random((64, 8, 8, 3), "f")
    y = generator.integers(0, 4, 64)
    losses = model.fit(x, y, epochs=4, batch_size=16, verbose=0, shuffle=False).history["loss"]
    return [losses, model.predict(x, verbose=0)]


@program
def keras_auto():
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return [model.jit_compile]


@program
def recurrent_training():
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((10,)), layers.Embedding(50, 8), layers.LSTM(16), layers.Dense(2)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("rmsprop", loss, jit_compile=False)
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 50, (64, 10)), generator.integers(0, 2, 64)
    losses = model.fit(x, y, epochs=4, batch_size=16, verbose=0, shuffle=False).history["loss"]
    return [losses, model.predict(x, verbose=0)]


@program
def scopes():
    @tf.function
    def f(x):
        with tf.xla.experimental.jit_scope():
            y = tf.sin(x) * 2.0
        with tf.xla.experimental.jit_scope(compile_ops=False):
            z = tf.cos(y) + 1.0
        return z * y

    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [3])
        with tf.xla.experimental.jit_scope():
            b = tf.exp(a)
        with v1.Session() as session:
            found = [session.run(b, {a: [0.0, 1.0, 2.0]}) for _ in range(2)]
    return [f(tf.ones([3])), *found]


@program
def set_jit():
    tf.config.optimizer.set_jit(True)
    found = straight()
    tf.config.optimizer.set_jit(False)
    return found


@program
def session_level():
    config = v1.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = v1.OptimizerOptions.ON_1
    with tf.Graph().as_default():
        a = v1.placeholder(tf.float32, [4])
        b = tf.sin(a) * 2.0 + tf.cos(a) * a - tf.exp(a)
        with v1.Session(config=config) as session:
            return [session.run(b, {a: np.full(4, k, "f")}) for k in (1, 2)]


@program
def old_functions():
    """Calls, the gradient and the trace of TensorFlow 1's functions; and of a marked loop."""
    from tensorflow.python.framework import function

    @function.Defun(compiled=True)
    def inner(x):
        return tf.sin(x) * 2.0

    @function.Defun(compiled=True)
    def outer(x, y):
        return inner(x) * y, inner(y)

    @function.Defun()
    def random(x):
        return x * 0.0 + tf.random.uniform([3], seed=1) * 0.0

    def run(session, wanted, feeds):
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        metadata = v1.RunMetadata()
        found = session.run(wanted, feeds, options, metadata)
        for device in metadata.step_stats.dev_stats:
            LABELS.extend(item.timeline_label for item in device.node_stats)
        return found

    with tf.Graph().as_default():
        a, b = (v1.placeholder(tf.float32, [3]) for _ in range(2))
        y, z = outer(a, b)
        gradients = v1.gradients(y, [a, b])
        with tf.xla.experimental.jit_scope():
            loop = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, tf.sin(x)), (0, a))
        wanted = [y, z, *gradients, random(a, compiled=True), loop[1]]
        with v1.Session() as session:
            feeds = {a: [1.0, 2.0, 3.0], b: [4.0, 5.0, 6.0]}
            found = [run(session, item, feeds) for _ in range(2) for item in wanted]
    return found


@program
def grappler_off():
    """Marks are clustered also where a program switches off TensorFlow's own optimizers."""
    from tensorflow.core.protobuf import rewriter_config_pb2

    def build(x):
        with tf.xla.experimental.jit_scope():
            return tf.sin(x) * 2.0 + x

    found = []
    for options in ({"disable_meta_optimizer": True}, {"use_plugin_optimizers": 2}):
        config = v1.ConfigProto()
        rewrites = rewriter_config_pb2.RewriterConfig(**options)
        config.graph_options.rewrite_options.CopyFrom(rewrites)
        with tf.Graph().as_default():
            y = build(v1.placeholder(tf.float32, [3], name="x"))
            with v1.Session(config=config) as session:
                found.append(session.run(y, {"x:0": [1.0, 2.0, 3.0]}))
        tf.config.optimizer.set_experimental_options(options)
        found.append(tf.function(build)(tf.ones([3])))
        tf.config.optimizer.set_experimental_options(dict.fromkeys(options, False))
    return found


@program
def xla_ops():
    """Ops that TensorFlow has only its XLA for, where nobody asked to compile."""
    from tensorflow.compiler.tf2xla.python import xla
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def add(x, y):
        return x + y

    def step(x):
        return xla.reduce(xla.dynamic_slice(tf.sin(x), [1], [2]), 1.0, [0], add) * 2.0

    x = np.array([1.0, 2.0, 3.0], np.float32)
    found = [xla.dynamic_slice(x, [1], [2]), tf.function(step)(x)]
    with tf.Graph().as_default() as graph:
        a = v1.placeholder(tf.float32, [3], name="a")
        tf.identity(step(a), name="b")
        with v1.Session() as session:
            found.append(session.run("b:0", {a: x}))
    with tf.Graph().as_default():
        tf.import_graph_def(graph.as_graph_def(), name="")
        with v1.Session() as session:
            return [*found, session.run("b:0", {"a:0": x})]


def main():
    file, enabled, *names = sys.argv[1:]
    logging.basicConfig(level=logging.INFO)
    if enabled == "True":
        import ingot.tensorflow

        ingot.tensorflow.enable()
    results = {"clusters after": {}}
    for name in names:
        tf.random.set_seed(1)
        found = [np.asarray(item) for item in tf.nest.flatten(PROGRAMS[name]())]
        results[name] = [(item.tolist(), str(item.dtype)) for item in found]
        if enabled == "True":
            from ingot.frontends.tensorflow.clustering import optimizer

            results["clusters after"][name] = [item.name for item in optimizer.clusters()]
    if enabled == "True":
        from ingot.frontends.tensorflow.clustering import background

        assert background.wait_for_compilations()
        launches = optimizer.clusters()
        results["clusters"] = [item.name for item in launches]
        results["compiled"] = [item.name for item in launches if item.variants]
        results["compiled by XLA"] = count()
        results["traced"] = [item for item in LABELS if "_XlaRun" in item]
        results["loops taken apart"] = [item for item in LABELS if "LoopCond" in item]
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(results, stream)


if __name__ == "__main__":
    main()

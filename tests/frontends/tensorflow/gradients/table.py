# SPDX-License-Identifier: Apache-2.0
"""The programs whose gradients are taken, one function of one tensor each.

A program is made anew for each way to differentiate it: `make(jit)` returns the function of `x`;
what it calls inside with `jit_compile` of its own gets `jit`, the value that the whole is compiled
with. All are smooth where they are evaluated, so that plain TensorFlow's numbers are the measure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    """A function to differentiate.

    Attributes:
        name: what the test calls it.
        make: takes `jit`, returns the function.
        dims: shape of its argument.
        positive: whether the argument must be positive.
    """

    name: str
    make: Callable[[Any], Function]
    dims: tuple[int, ...] = (3, 4)
    positive: bool = False

    @property
    def x(self) -> np.ndarray:
        """Return the argument."""
        drawn = np.random.default_rng([7, *self.dims]).uniform(-1.2, 1.2, self.dims)
        drawn = np.abs(drawn) + 0.3 if self.positive else drawn
        return drawn.astype(np.float32)


def constant(*dims: int, seed: int = 0) -> Any:
    """Return a constant tensor of fixed random numbers."""
    drawn = np.random.default_rng([seed, *dims]).normal(size=dims) * 0.5
    return tf.constant(drawn.astype(np.float32))


PROGRAMS: dict[str, Program] = {}


def program(*dims: int, positive: bool = False) -> Any:
    """Enter the decorated maker of a function into the table."""

    def enter(make: Callable[[Any], Function]) -> Callable[[Any], Function]:
        name = make.__name__
        assert name not in PROGRAMS
        PROGRAMS[name] = Program(name, make, dims or (3, 4), positive)
        return make

    return enter


def plain(name: str, function: Function, *dims: int, positive: bool = False) -> None:
    """Enter a function that calls nothing compiled."""
    assert name not in PROGRAMS
    PROGRAMS[name] = Program(name, lambda _: function, dims or (3, 4), positive)


# ---- elementwise

plain("polynomial", lambda x: x**3 + 2.0 * x * x)
plain("transcendental", lambda x: tf.sin(x) * tf.exp(0.5 * x) + tf.tanh(x))
plain("logarithms", lambda x: tf.math.log(x) * tf.sqrt(x) + tf.math.rsqrt(x), positive=True)
plain("quotient", lambda x: x / (1.0 + x * x) - 1.0 / (2.0 + x * x))
plain("activations", lambda x: tf.nn.gelu(x) + tf.nn.softplus(x) * tf.sigmoid(x))
plain("select", lambda x: tf.where(x > 0.1, x * x * x, tf.sin(x)))
plain("clipped", lambda x: tf.clip_by_value(x * x, 0.2, 0.9) + tf.maximum(x, 0.1) ** 3)
plain("power", lambda x: x**2.5 + tf.pow(1.7, x), positive=True)
plain("error_function", lambda x: tf.math.erf(x) + tf.math.lgamma(x + 3.0))

# ---- reductions

plain("total", lambda x: tf.reduce_sum(x * x))
plain("sum_of_rows", lambda x: tf.reduce_sum(x**3, 1) ** 2)
plain("sum_kept", lambda x: x * tf.reduce_sum(x * x, 0, keepdims=True))
plain("mean", lambda x: tf.reduce_mean(x**3, [0]) * tf.reduce_mean(x))
plain("largest", lambda x: tf.reduce_max(x * x, 1) ** 2 + tf.reduce_min(x, 1))
plain("product", lambda x: tf.reduce_prod(x + 2.0, 1))
plain("variance", lambda x: tf.math.reduce_variance(x, 1) * tf.math.reduce_std(x + x**2, 1))
plain("log_sum_exp", lambda x: tf.reduce_logsumexp(x * x, 1))
plain("norm", lambda x: tf.norm(x + 2.0, axis=1))
plain("segments", lambda x: tf.math.unsorted_segment_sum(x**3, [1, 0, 1], 2))

# ---- shapes

plain("concat", lambda x: tf.concat([x * x, x[:, :2] ** 3], 1))
plain("stack", lambda x: tf.stack([x, x * x, tf.sin(x)], 1)[:, 1:] ** 2)
plain("split", lambda x: tf.split(x, 2, 1)[0] ** 2 * tf.unstack(x, axis=1)[3][:, None])
plain("tile", lambda x: tf.tile(x * x, [2, 3]) ** 2)
plain("slices", lambda x: x[1:, ::2] ** 3 * x[0, 1] + x[-1, None, ..., 1:3])
plain("begin_and_size", lambda x: tf.slice(x, [0, 1], [2, 3]) ** 3)
plain("broadcast", lambda x: (x[:, :1] * x[:1, :]) ** 2 + tf.broadcast_to(x[0], [2, 3, 4])[0])
plain("reshape", lambda x: tf.reshape(x, [2, -1]) ** 3 @ tf.reshape(x, [-1, 2]))
plain("transpose", lambda x: tf.transpose(x) ** 3 * tf.reduce_sum(x))
plain("permuted", lambda x: tf.transpose(tf.reshape(x, [3, 2, 2]), [2, 0, 1]) ** 3)
plain("padded", lambda x: tf.pad(x * x, [[1, 0], [2, 1]]) ** 2)
plain("mirrored", lambda x: tf.pad(x * x, [[1, 1], [2, 2]], "REFLECT") ** 2)
plain("reverse", lambda x: tf.reverse(x * x, [1]) * x + tf.roll(x, 1, 0) ** 3)
plain("expand", lambda x: tf.squeeze(tf.expand_dims(x**3, 1), [1]))
plain("repeat", lambda x: tf.repeat(x, 2, 0) ** 3)
plain("cumulative_sum", lambda x: tf.cumsum(x * x, 1) ** 2)
plain("cumulative_product", lambda x: tf.math.cumprod(x + 2.0, 1, reverse=True))
plain("gather", lambda x: tf.gather(x * x, [2, 0, 2]) ** 2)
plain("gather_columns", lambda x: tf.gather(x, [3, 1], axis=1) ** 3)
plain("gather_nd", lambda x: tf.gather_nd(x, [[0, 1], [2, 3]]) ** 3)
plain("scatter_nd", lambda x: tf.scatter_nd([[4], [1], [0]], x * x, [5, 4]) ** 2)
plain("scatter_update", lambda x: tf.tensor_scatter_nd_update(x, [[1]], x[:1] ** 2) ** 2)
plain(
    "dynamic_shape", lambda x: tf.reshape(x, [tf.size(x)]) ** 3 / tf.cast(tf.shape(x)[0], "float32")
)
plain("sort", lambda x: tf.sort(x, 1) ** 3)
plain("top_k", lambda x: tf.math.top_k(x, 2)[0] ** 3)
plain("space_to_batch", lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]) ** 3, 1, 4, 4, 2)
plain("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2) ** 3, 1, 2, 2, 4)

# ---- layers of networks

plain("softmax", lambda x: tf.nn.softmax(x * x))
plain("log_softmax", lambda x: tf.nn.log_softmax(x * x, 0))
plain(
    "cross_entropy",
    lambda x: tf.nn.softmax_cross_entropy_with_logits([[0.1, 0.2, 0.3, 0.4]] * 3, x * x),
)
plain(
    "sparse_cross_entropy",
    lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0, 3], x * x),
)
plain("matmul", lambda x: tf.matmul(x, x, transpose_b=True) @ x)
plain("batch_matmul", lambda x: tf.matmul(x, tf.transpose(x, [0, 2, 1])) ** 2, 2, 3, 2)
plain("einsum", lambda x: tf.einsum("ij,kj->ik", x, x) ** 2)
plain("bias", lambda x: tf.nn.bias_add(x * x, x[0]) ** 2)
plain(
    "convolution", lambda x: tf.nn.conv2d(x * x, constant(2, 2, 2, 3), 1, "SAME") ** 2, 1, 4, 4, 2
)
plain(
    "depthwise",
    lambda x: tf.nn.depthwise_conv2d(x * x, constant(2, 2, 2, 1), [1, 1, 1, 1], "VALID"),
    1,
    4,
    4,
    2,
)
plain("average_pool", lambda x: tf.nn.avg_pool2d(x * x, 2, 2, "SAME") ** 2, 1, 4, 4, 2)
plain("max_pool", lambda x: tf.nn.max_pool2d(x * x * x, 2, 2, "VALID") ** 2, 1, 4, 4, 2)
plain("resized", lambda x: tf.image.resize(x, [3, 5]) ** 2, 1, 4, 4, 2)


def _batch_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, 0.1, 1.5, 0.01) ** 2


plain("batch_norm", _batch_norm)
plain(
    "fused_batch_norm",
    lambda x: tf.compat.v1.nn.fused_batch_norm(x, [1.0, 2.0], [0.1, 0.2])[0] ** 2,
    2,
    2,
    3,
    2,
)
plain("cholesky", lambda x: tf.linalg.cholesky(x @ tf.transpose(x) + 3.0 * tf.eye(3)))
plain("solve", lambda x: tf.linalg.solve(x @ tf.transpose(x) + 3.0 * tf.eye(3), x))


def _layer(build: Callable[[], Any], *dims: int) -> Callable[[Any], Function]:
    def make(_: Any) -> Function:
        keras.utils.set_random_seed(7)
        layer = build()
        layer.build((None, *dims[1:]))
        return lambda x: layer(x)

    return make


def layer(name: str, build: Callable[[], Any], *dims: int) -> None:
    """Enter a Keras layer."""
    PROGRAMS[name] = Program(name, _layer(build, *dims), dims)


layer("dense", lambda: keras.layers.Dense(3, "tanh"), 2, 4)
layer("layer_norm", lambda: keras.layers.LayerNormalization(), 2, 4)
layer("lstm", lambda: keras.layers.LSTM(2), 2, 3, 2)
layer("gru", lambda: keras.layers.GRU(2, return_sequences=True), 2, 3, 2)
layer("simple_rnn", lambda: keras.layers.SimpleRNN(2), 2, 3, 2)
layer("conv1d", lambda: keras.layers.Conv1D(2, 2, activation="tanh"), 2, 4, 2)


@program(2, 3)
def lstm_cell(_: Any) -> Function:
    """Return a step of an LSTM, called twice."""
    keras.utils.set_random_seed(7)
    cell = keras.layers.LSTMCell(3)
    cell.build((None, 3))

    def function(x: Any) -> Any:
        h, state = cell(x, [x * 0.5, x * x])
        return cell(h, state)[0]

    return function


# ---- loops


@program(3)
def bare_loop(_: Any) -> Function:
    """Return x to a power, by a loop without a bound."""
    return lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]


@program(3)
def bounded_loop(_: Any) -> Function:
    """Return a loop with `maximum_iterations`."""

    def function(x: Any) -> Any:
        return tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, tf.sin(a) * x), [0, x], maximum_iterations=5
        )[1]

    return function


@program(3)
def loop_by_data(_: Any) -> Function:
    """Return a loop whose end the data decide."""

    def function(x: Any) -> Any:
        return tf.while_loop(
            lambda a: tf.reduce_sum(a * a) < 40.0, lambda a: (a * (1.5 + 0.1 * x),), [x]
        )[0]

    return function


@program(3)
def autograph_for(_: Any) -> Function:
    """Return a `for` over a range."""

    def function(x: Any) -> Any:
        a = x
        for i in tf.range(3):
            a = a * x + tf.cast(i, tf.float32)
        return a

    return function


@program(3)
def autograph_while(_: Any) -> Function:
    """Return a `while` with a branch in it."""

    def function(x: Any) -> Any:
        a, i = x, tf.constant(0)
        while i < 4:
            if i % 2 == 0:
                a = a * x
            else:
                a = tf.sin(a)
                a = a + 1.0
            i += 1
        return a

    return function


@program(4, 2)
def loop_over_rows(_: Any) -> Function:
    """Return a loop that reads rows of a tensor."""

    def function(x: Any) -> Any:
        state = tf.zeros([2])
        for i in tf.range(4):
            state = tf.tanh(state + x[i]) * x[i]
        return state

    return function


@program(4, 2)
def array_in_a_loop(_: Any) -> Function:
    """Return a loop that writes a TensorArray."""

    def function(x: Any) -> Any:
        made = tf.TensorArray(tf.float32, 4)
        for i in tf.range(4):
            made = made.write(i, x[i] ** 3)
        return made.stack()

    return function


@program(3, 2)
def array_read(_: Any) -> Function:
    """Return a loop that reads a TensorArray made of a tensor."""

    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 3).unstack(x * x)
        a = tf.ones([2])
        for i in tf.range(3):
            a = a * rows.read(i)
        return a

    return function


plain("scan", lambda x: tf.scan(lambda a, row: tf.tanh(a * row + row), x), 3, 2)
plain("map_fn", lambda x: tf.map_fn(lambda row: row * tf.reduce_sum(row * row), x), 3, 2)
plain(
    "vectorized_map", lambda x: tf.vectorized_map(lambda row: row * tf.reduce_sum(row**2), x), 3, 2
)


@program(2)
def nested_loops(_: Any) -> Function:
    """Return a loop in a loop."""

    def function(x: Any) -> Any:
        a = x
        for _i in tf.range(2):
            for _j in tf.range(2):
                a = a * x
            a = tf.sin(a)
        return a

    return function


@program(3)
def loop_of_two_states(_: Any) -> Function:
    """Return a loop of which one state has no gradient."""

    def function(x: Any) -> Any:
        step = lambda i, a, b: (i + 1, a * b, b + tf.cast(i, tf.float32) * x)  # noqa: E731
        return tf.while_loop(lambda i, a, b: i < 3, step, [0, x, x * x])[1]

    return function


# ---- branches


plain("branch", lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x**3, lambda: tf.sin(x) * x), 3)
plain(
    "other_branch",
    lambda x: tf.cond(tf.reduce_sum(x) > 9.0, lambda: x**3, lambda: tf.sin(x) * x),
    3,
)
plain(
    "branch_without_gradient",
    lambda x: tf.cond(tf.reduce_sum(x) > 9.0, lambda: x**3, lambda: tf.ones([3])) + x,
    3,
)
plain(
    "case",
    lambda x: tf.switch_case(
        tf.cast(tf.reduce_sum(x) > -9.0, tf.int32), [lambda: x, lambda: x**3, lambda: tf.exp(x)]
    ),
    3,
)
plain(
    "branch_in_branch",
    lambda x: tf.cond(
        x[0] > -5.0, lambda: tf.cond(x[1] > -5.0, lambda: x**3, lambda: x), lambda: x * 2.0
    ),
    3,
)
plain(
    "shapes_in_branch",
    lambda x: tf.cond(x[0, 0] > -5.0, lambda: tf.reduce_sum(x**3, 1), lambda: tf.reduce_max(x, 1)),
    2,
    3,
)
plain("known_branch", lambda x: tf.cond(tf.constant(True), lambda: x**3, lambda: x), 3)


# ---- calls


@program(3)
def calls_plain(_: Any) -> Function:
    """Return a function that calls a tf.function that is not compiled."""
    inner = tf.function(lambda x: tf.sin(x) * x**2)
    return lambda x: inner(x) * inner(x * 0.5)


@program(3)
def calls_compiled(jit: Any) -> Function:
    """Return a function that calls a compiled one."""
    inner = tf.function(lambda x: tf.reduce_sum(x) * x**2, jit_compile=jit)
    return lambda x: inner(x) * inner(x * 0.5)


@program(3)
def calls_in_a_loop(jit: Any) -> Function:
    """Return a loop whose body calls a compiled function."""
    inner = tf.function(lambda x: tf.sin(x) * x, jit_compile=jit)

    def function(x: Any) -> Any:
        for _i in tf.range(2):
            x = inner(x)
        return x

    return function


@program(3)
def calls_in_a_branch(jit: Any) -> Function:
    """Return a branch that calls a compiled function."""
    inner = tf.function(lambda x: tf.sin(x) * x, jit_compile=jit)
    return lambda x: tf.cond(tf.reduce_sum(x) > -9.0, lambda: inner(x), lambda: x)


@program(3)
def several_results(jit: Any) -> Function:
    """Return what uses one of several results of a compiled function."""
    inner = tf.function(lambda x: (tf.sin(x), tf.shape(x), x * x, x), jit_compile=jit)

    def function(x: Any) -> Any:
        first, sizes, second, same = inner(x)
        return first * second * same + tf.cast(sizes[0], tf.float32)

    return function


@program(3)
def with_a_variable(_: Any) -> Function:
    """Return a function that reads a variable."""
    v = tf.Variable(tf.constant([0.5, 1.5, -0.5]))
    return lambda x: tf.reduce_sum(v * x**3) * v


@program(4)
def embedding(_: Any) -> Function:
    """Return rows of a variable, scaled."""
    v = tf.Variable(constant(6, 4))
    return lambda x: tf.nn.embedding_lookup(v, [1, 5, 1]) * x**3


# ---- custom gradients


@program(3)
def custom(_: Any) -> Function:
    """Return a function with a gradient of its own that can be differentiated."""

    @tf.custom_gradient
    def cube(x: Any) -> Any:
        return x**3, lambda dy: dy * 3.0 * x**2 + 0.25 * dy * x

    return lambda x: cube(x) * x


@program(3)
def custom_clip(_: Any) -> Function:
    """Return a function whose gradient is clipped."""

    @tf.custom_gradient
    def clip(x: Any) -> Any:
        return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.5, 0.5)

    return lambda x: clip(x * x) * x


@program(3)
def custom_with_variable(_: Any) -> Function:
    """Return a custom gradient of a variable too."""
    v = tf.Variable(1.5)

    @tf.custom_gradient
    def scale(x: Any) -> Any:
        def gradient(dy: Any, variables: Any = None) -> Any:
            return dy * v * 3.0 * x**2, [tf.reduce_sum(dy * x**3) for _ in variables]

        return v.read_value() * x**3, gradient

    return lambda x: scale(x) + x


plain("stopped", lambda x: tf.stop_gradient(x * x) * x**2, 3)
plain("recomputed", lambda x: tf.recompute_grad(lambda h: tf.tanh(h) ** 2)(x), 3)
plain("integers_beside", lambda x: x**3 * tf.cast(tf.argmax(x, 0), tf.float32), 3)
plain("checked_numbers", lambda x: tf.debugging.check_numerics(x**3, "x"), 3)

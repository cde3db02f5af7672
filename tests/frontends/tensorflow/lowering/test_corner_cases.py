# SPDX-License-Identifier: Apache-2.0
"""Corner cases of single ops against TensorFlow: depth windows, empty images, NaN, no inverse."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import SPECIAL, assert_same, check, numbers, trace

import ingot.client.compilation  # noqa: F401  (registers the custom-call targets for the evaluator)
from ingot.frontends.tensorflow.graphs.capture import capture
from ingot.frontends.tensorflow.graphs.variables import bind
from ingot.frontends.tensorflow.lowering import lower
from ingot.support.diagnostics import ExecutionError, UnsupportedError

RAW = tf.raw_ops
IMAGE = np.round(numbers(2, 6, 7, 4))
VOLUME = np.round(numbers(1, 4, 5, 6, 2))


def pool_cases(padding):
    """Return what pools do under one padding: name -> (function, operands)."""
    window = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 2, 1], "padding": padding}
    second = {"orig_input": IMAGE, "grad": numbers(2, 6, 7, 4, seed=4)}

    def pooled(x):
        return tf.nn.max_pool2d(x, [2, 3], 2, padding)

    def gradient(function):
        return lambda x: tf.gradients(function(x) ** 2, x)

    def argmax(x, batch):
        return RAW.MaxPoolWithArgmax(input=x, include_batch_in_index=batch, **window)

    return {
        "v2": (lambda x: RAW.MaxPoolV2(input=x, **window), [IMAGE]),
        "v2_gradient": (gradient(lambda x: RAW.MaxPoolV2(input=x, **window)), [IMAGE]),
        "argmax": (lambda x: argmax(x, False), [IMAGE]),
        "argmax_in_batch": (lambda x: argmax(x, True), [IMAGE]),
        "argmax_gradient": (gradient(lambda x: argmax(x, False)[0]), [IMAGE]),
        "second_gradient": (
            lambda x, g: RAW.MaxPoolGradGrad(
                orig_input=x, orig_output=pooled(x), grad=g, **window
            ),
            list(second.values()),
        ),
        "second_gradient_v2": (
            lambda x, g: RAW.MaxPoolGradGradV2(
                orig_input=x, orig_output=pooled(x), grad=g, **window
            ),
            list(second.values()),
        ),
        "second_gradient_3d": (
            lambda x, g: RAW.MaxPool3DGradGrad(
                orig_input=x, orig_output=tf.nn.max_pool3d(x, 2, 2, padding), grad=g,
                ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding=padding,
            ),
            [VOLUME, numbers(1, 4, 5, 6, 2, seed=4)],
        ),
        "average_3d": (
            gradient(lambda x: tf.nn.avg_pool3d(x, [2, 3, 1], 2, padding)),
            [VOLUME],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("name", sorted(pool_cases("SAME")))
def test_pools(name, padding):
    function, operands = pool_cases(padding)[name]
    check(function, *operands, tolerance=1e-5)


def test_a_pool_over_channels():
    def pool(x):
        return RAW.MaxPool(input=x, ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID")

    check(pool, numbers(2, 3, 3, 8))
    x = np.round(numbers(2, 3, 3, 8))
    program = trace(lambda x: tf.gradients(pool(x), x), [tf.TensorSpec(x.shape)])
    ((got,), _) = program.evaluate([x])
    pairs = x.reshape(2, 3, 3, 4, 2)
    first = pairs[..., 0] >= pairs[..., 1]
    np.testing.assert_array_equal(got, np.stack([first, ~first], -1).reshape(x.shape))


def test_a_pool_over_the_batch_is_refused_in_tensorflows_words():
    def pool(x):
        return RAW.MaxPool(input=x, ksize=[2, 1, 1, 1], strides=[2, 1, 1, 1], padding="VALID")

    with pytest.raises(UnsupportedError, match="not yet supported on the batch dimension"):
        trace(pool, [tf.TensorSpec(IMAGE.shape)])


WINDOWS = {
    "strides": lambda op, **v: RAW.AvgPool(value=op, **{"ksize": [1, 2, 2, 1], **v}),
    "ksize": lambda op, **v: RAW.AvgPoolGrad(
        orig_input_shape=[1, 0, 0, 0], grad=op[:1, :1, :1, :1], strides=[1, 1, 1, 1], **v
    ),
    "dilations": lambda op, **v: RAW.Conv2D(
        input=op, filter=tf.ones([1, 1, op.shape[-1], 1]), strides=[1, 1, 1, 1], **v
    ),
    "rates": lambda op, **v: RAW.Dilation2D(
        input=op, filter=tf.ones([2, 2, op.shape[-1]]), strides=[1, 1, 1, 1], **v
    ),
}


@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_windows_are_positive(name):
    """TensorFlow's shape functions refuse some of them, unless only the call says the sizes."""

    def windowed(x):
        return WINDOWS[name](x, padding="SAME", **{name: [1, 1, 1, 0]})

    with pytest.raises((UnsupportedError, ValueError), match=r"must be positive but is 0|> 0"):
        trace(windowed, [tf.TensorSpec(IMAGE.shape)])


@pytest.mark.parametrize(
    ("image", "gradient", "padding"),
    [
        ([2, 0, 4, 1], (2, 0, 2, 1), "SAME"),
        ([0, 4, 4, 1], (0, 2, 2, 1), "SAME"),
        ([2, 4, 4, 0], (2, 2, 2, 0), "SAME"),
        ([2, 1, 4, 1], (2, 0, 2, 1), "VALID"),
    ],
)
def test_gradients_of_average_pools_of_no_elements(image, gradient, padding):
    def pool(g):
        return RAW.AvgPoolGrad(
            orig_input_shape=image, grad=g, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
            padding=padding,
        )  # fmt: skip

    check(pool, numbers(*gradient))


def dilated(kernel, rates):
    """Return the filter with zeros between its taps."""
    taps = [(size - 1) * rate + 1 for size, rate in zip(kernel.shape, rates, strict=False)]
    wide = np.zeros((*taps, *kernel.shape[2:]), kernel.dtype)
    wide[:: rates[0], :: rates[1]] = kernel
    return wide


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("strides", "rates"), [((1, 1), (2, 3)), ((2, 2), (2, 1))])
def test_gradients_of_dilated_convolutions(padding, strides, rates):
    """TensorFlow's kernels refuse them on CPU: held against filters with zeros in between."""
    image, kernel = numbers(2, 9, 11, 4), numbers(3, 3, 4, 5)
    wide = dilated(kernel, rates)
    settings = {"strides": [1, *strides, 1], "padding": padding}
    out = tf.nn.conv2d(image, wide, strides, padding)
    gradient = numbers(*out.shape, seed=3)
    spec = [tf.TensorSpec(item.shape) for item in (image, kernel, gradient)]
    rated = {**settings, "dilations": [1, *rates, 1]}

    def both(x, k, g):
        return (
            RAW.Conv2DBackpropInput(
                input_sizes=image.shape, filter=k, out_backprop=g, **rated
            ),
            RAW.Conv2DBackpropFilter(
                input=x, filter_sizes=kernel.shape, out_backprop=g, **rated
            ),
        )  # fmt: skip

    got, _ = trace(both, spec).evaluate([image, kernel, gradient])
    to_image = RAW.Conv2DBackpropInput(
        input_sizes=image.shape, filter=wide, out_backprop=gradient, **settings
    )
    to_filter = RAW.Conv2DBackpropFilter(
        input=image, filter_sizes=wide.shape, out_backprop=gradient, **settings
    )
    assert_same(got[0], to_image.numpy(), 1e-4)
    assert_same(got[1], to_filter.numpy()[:: rates[0], :: rates[1]], 1e-4)


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("by_rate", [False, True])
@pytest.mark.parametrize("power", [-0.5, -0.3])
def test_ftrl(v2, by_rate, power):
    variables = [tf.Variable(numbers(5, seed=n) ** 2 + 0.1) for n in range(3)]

    def step(gradient):
        value, total, linear = (variable.handle for variable in variables)
        numbers_of = {"lr": 0.3, "l1": 0.1, "l2": 0.2, "lr_power": power}
        shared = {"var": value, "accum": total, "linear": linear, "grad": gradient, **numbers_of}
        if v2:
            RAW.ResourceApplyFtrlV2(l2_shrinkage=0.05, multiply_linear_by_lr=by_rate, **shared)
        else:
            RAW.ResourceApplyFtrl(multiply_linear_by_lr=by_rate, **shared)
        return [variable.read_value() for variable in variables]

    check(step, numbers(5, seed=9), tolerance=1e-5)


@pytest.mark.parametrize("op", ["InvGrad", "ReciprocalGrad", "RsqrtGrad", "SqrtGrad", "TanhGrad"])
def test_gradients_at_special_values(op):
    grid = np.meshgrid(*[np.array([0, 1, np.inf, np.nan, 2], np.float32)] * 2)
    y, dy = (side.ravel() for side in grid)
    check(lambda y, dy: getattr(RAW, op)(y=y, dy=dy), y, dy, tolerance=1e-5)


def test_top_k_orders_zeros_by_sign_and_nan_first():
    """As XLA does. TensorFlow's own kernel has no order for NaN and takes zeros as equal."""
    x = np.array([0, -0.0, 0, 3, -0.0, np.nan, 0, -np.inf], np.float32)
    program = trace(lambda x: tf.math.top_k(x, 7), [tf.TensorSpec(x.shape)])
    (values, indices), _ = program.evaluate([x])
    np.testing.assert_array_equal(indices, [5, 3, 0, 2, 6, 1, 4])
    np.testing.assert_array_equal(values, x[indices])


def test_buckets():
    x = np.array(SPECIAL, np.float32)
    check(lambda x: RAW.Bucketize(input=x, boundaries=[-1.0, 0.5]), x)
    check(lambda x: RAW.Bucketize(input=x, boundaries=[]), x)
    with pytest.raises(UnsupportedError, match="Expected sorted boundaries"):
        trace(lambda x: RAW.Bucketize(input=x, boundaries=[1.0, 0.5]), [tf.TensorSpec([3])])


TRIDIAGONAL = {
    "regular": numbers(2, 3, 5) + np.array([[0], [4], [0]], np.float32),
    "no_first_pivot": np.array([[2, 1, -1, 0], [0, 3, 2, 4], [9, -1, 2, 1]], np.float32),
    "singular": np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0]], np.float32),
    "one_row": np.array([[2], [3], [4]], np.float32),
    "no_rows": np.zeros((3, 0), np.float32),
}


@pytest.mark.parametrize("pivots", [True, False])
@pytest.mark.parametrize("name", sorted(TRIDIAGONAL))
def test_tridiagonal_solves(name, pivots):
    diagonals = TRIDIAGONAL[name]
    right = numbers(*diagonals.shape[:-2], diagonals.shape[-1], 2)

    def solve(d, r):
        return RAW.TridiagonalSolve(diagonals=d, rhs=r, partial_pivoting=pivots)

    check(solve, diagonals, right, tolerance=1e-4)


def test_a_variable_without_a_value_is_given_one():
    handle = RAW.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="given_one")

    @tf.function
    def give(x):
        RAW.AssignVariableOp(resource=handle, value=x * 2)
        return RAW.ReadVariableOp(resource=handle, dtype=tf.float32)

    concrete = give.get_concrete_function(tf.TensorSpec([2]))
    _, binding = bind(capture(concrete.name, concrete.graph))
    assert [item.input for item in binding.parameters] == [0]


@pytest.mark.parametrize("op", [tf.nn.depth_to_space, tf.nn.space_to_depth])
def test_blocks_of_grouped_channels(op):
    """TensorFlow's CPU has no kernel for the data format NCHW_VECT_C."""
    grouped = np.arange(2 * 8 * 2 * 4 * 4, dtype=np.float32).reshape(2, 8, 2, 4, 4)
    spec = [tf.TensorSpec(grouped.shape)]
    (found,), _ = trace(lambda x: op(x, 2, "NCHW_VECT_C"), spec).evaluate([grouped])
    images, blocks = (item.transpose(0, 2, 3, 1, 4) for item in (grouped, found))
    plain = op(images.reshape(*images.shape[:3], -1), 2)
    np.testing.assert_array_equal(blocks.reshape(plain.shape), plain)


@pytest.mark.parametrize("axis", [[0], [0, 1], [[1]]])
@pytest.mark.parametrize("op", [tf.cumsum, tf.math.cumprod, tf.math.cumulative_logsumexp])
def test_an_axis_that_is_no_scalar(op, axis):
    with pytest.raises(UnsupportedError, match="axis must be a scalar, not of shape"):
        trace(lambda x: op(x, axis), [tf.TensorSpec([3, 4])])


@pytest.mark.parametrize("sizes", [[2, 2], [1, 2, 2], [2, 1, 2], [2, 2, 1], []])
def test_updates_of_scatters_must_have_the_sizes_of_the_indices(sizes):
    """Ranks that only the call says: TensorFlow's shape functions refuse the others."""
    given = [np.zeros([3, 2]), np.zeros([2, 2, 1]), np.ones(sizes)]
    kinds = (tf.float32, tf.int32, tf.float32)

    def lowered(function):
        specs = [tf.TensorSpec(None, kind) for kind in kinds]
        concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
        source, binding = bind(capture(concrete.name, concrete.graph))
        shapes = {number: np.shape(item) for number, item in enumerate(given)}
        lower(source.with_input_shapes(shapes), binding, "test")

    with pytest.raises(UnsupportedError, match=r"Must have updates\.shape"):
        lowered(lambda x, i, u: RAW.ScatterNd(indices=i, updates=u, shape=[3, 2]))
    if sizes:
        # TensorFlow's own kernel would end the process, so the node is not left to it.
        with pytest.raises(ExecutionError, match=r"Must have updates\.shape"):
            lowered(lambda x, i, u: RAW.TensorScatterUpdate(tensor=x, indices=i, updates=u))

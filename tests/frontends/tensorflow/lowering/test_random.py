# SPDX-License-Identifier: Apache-2.0
"""Random numbers equal TensorFlow's own: uniform and integers bit for bit, normal within an ulp."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, specs_of, trace

from ingot.frontends.tensorflow.lowering.random_ops.worker_shares import rows_per_share
from ingot.support.diagnostics import ExecutionError, UnsupportedError

SEED = np.array([7, -3], np.int32)
RANDOM = tf.random


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("dims", [[1], [5, 3], [2, 4, 8], [0]])
def test_stateless_uniform_is_bit_equal(dtype, dims):
    check(lambda s: RANDOM.stateless_uniform(dims, s, dtype=dtype), SEED, tolerance=0.0)


def test_stateless_uniform_of_an_open_size():
    check(
        lambda s, x: RANDOM.stateless_uniform(tf.shape(x), s),
        SEED,
        np.zeros((5, 3), np.float32),
        specs=[tf.TensorSpec([2], tf.int32), tf.TensorSpec([None, 3])],
        tolerance=0.0,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_stateless_normal(dtype):
    tolerance = {"float32": 1e-6, "float64": 1e-13, "float16": 2e-3}[dtype]
    check(lambda s: RANDOM.stateless_normal([11], s, dtype=dtype), SEED, tolerance=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stateless_truncated_normal(dtype):
    check(lambda s: RANDOM.stateless_truncated_normal([203], s, dtype=dtype), SEED, tolerance=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_stateless_integers_are_equal(dtype):
    check(lambda s: RANDOM.stateless_uniform([9], s, minval=None, maxval=None, dtype=dtype), SEED)
    if dtype.startswith("int"):
        check(lambda s: RANDOM.stateless_uniform([9], s, -5, 1000, dtype=dtype), SEED)


def test_seeds_are_split_and_folded_as_in_tensorflow():
    check(lambda s: RANDOM.split(s, 3), SEED)
    check(lambda s: RANDOM.fold_in(s, 12), SEED)


@pytest.mark.parametrize("start", [5, 2**40 + 1])
def test_a_generator_moves_on_as_in_tensorflow(start):
    generator = RANDOM.Generator.from_state([start, 1, 99], alg="philox")

    def draw(x):
        return (
            generator.uniform([3]) + x,
            generator.normal([5]),
            generator.uniform([], 0, 9, tf.int32),
        )

    check(draw, np.float32(0), tolerance=1e-6)


LOGITS = numbers(5, 7, scale=2)
ALPHAS = np.array([0.3, 1.0, 2.5], np.float32)
STATELESS = {
    "shuffle": lambda s: RANDOM.experimental.stateless_shuffle(LOGITS, s),
    "shuffle_none": lambda s: RANDOM.experimental.stateless_shuffle(LOGITS[:0], s),
    "shuffle_one": lambda s: RANDOM.experimental.stateless_shuffle(LOGITS[:1], s),
    "categorical": lambda s: RANDOM.stateless_categorical(LOGITS, 6, s),
    "categorical_with_infinities": lambda s: RANDOM.stateless_categorical(
        np.where(LOGITS > 1, np.inf, np.where(LOGITS < -1, -np.inf, LOGITS)), 9, s
    ),
    "gamma": lambda s: RANDOM.stateless_gamma([101, 3], s, ALPHAS),
    "gamma_f64": lambda s: RANDOM.stateless_gamma(
        [11, 3], s, ALPHAS.astype(np.float64), dtype=tf.float64
    ),
    "gamma_of_no_numbers": lambda s: RANDOM.stateless_gamma([0, 3], s, ALPHAS),
}


@pytest.mark.parametrize("name", sorted(STATELESS))
def test_stateless_picks_and_gamma(name):
    check(STATELESS[name], SEED, tolerance=1e-6 if "gamma" in name else 0.0)


@pytest.mark.parametrize(
    ("rows", "classes", "samples"),
    [(64, 100, 5), (63, 100, 1), (1000, 7, 3), (257, 1, 40), (5, 3000, 9), (4, 50, 0), (0, 5, 2)],
)
def test_picks_of_many_rows(rows, classes, samples):
    """TensorFlow's threads share the rows, and each share has numbers of its own."""
    logits = numbers(rows, classes)
    check(lambda s: RANDOM.stateless_categorical(logits, samples, s), SEED)


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
def test_shares_cover_the_rows_and_keep_the_threads_busy(threads):
    for rows in (1, 2, 17, 64, 1000, 99991):
        for cost in (50, 400, 7000, 10**9):
            share = rows_per_share(rows, cost, threads)
            assert 1 <= share <= rows
            assert threads > 1 or share == rows
            if rows * cost < 200_000:
                assert share == rows
            elif cost == 10**9 and rows >= 8 * threads > 8:
                assert -(-rows // share) > threads


def test_older_generator_ops_draw_the_same_numbers():
    state = tf.Variable([2**63 - 5, 3, 99], dtype=tf.int64)
    raw = tf.raw_ops

    def draw(x):
        given = {"resource": state.handle, "algorithm": np.int64(1)}
        uniform = raw.StatefulUniform(shape=[3], dtype=tf.float32, **given)
        normal = raw.StatefulStandardNormalV2(shape=[5], dtype=tf.float32, **given)
        raw.RngSkip(delta=np.int64(7), **given)
        bits = raw.StatefulUniformFullInt(shape=[4], dtype=tf.uint64, **given)
        return uniform + x, normal, bits, state.read_value()

    check(draw, np.float32(0), tolerance=1e-6)


RATES = np.array([0.3, 9.99, 10.0, 2500.0, 0.0, np.inf], np.float32)
COUNTS = np.array([[5.0], [40.0], [3000.0], [0.0], [-1.0]], np.float32)
CHANCES = np.array([0.02, 0.4, 0.5, 0.93, 1.0, 0.0, 1.5], np.float32)
POISSON_TYPES = [
    (np.float32, tf.float32), (np.float64, tf.int64), (np.float16, tf.int32),
    (np.float32, tf.float16), (np.int32, tf.float64),
]  # fmt: skip


@pytest.mark.parametrize(("rates", "dtype"), POISSON_TYPES)
def test_poisson(rates, dtype):
    some = RATES[:-1] if rates is np.int32 else RATES
    given = some.astype(rates)
    check(lambda s: RANDOM.stateless_poisson([7, given.size], s, given, dtype), SEED)


@pytest.mark.parametrize("shape", [[0, 6], [2, 0, 6], [6]])
def test_poisson_of_few_numbers(shape):
    check(lambda s: RANDOM.stateless_poisson(shape, s, RATES), SEED)


def test_poisson_of_no_rates():
    none = np.zeros([0], np.float32)
    check(lambda s: RANDOM.stateless_poisson([3, 0], s, none), SEED)


def test_the_poisson_distribution_of_nan_is_nan():
    made = trace(
        lambda s: RANDOM.stateless_poisson([2, 2], s, [np.nan, 3.0], tf.float32), specs_of([SEED])
    ).evaluate([SEED])[0][0]
    np.testing.assert_array_equal(np.isnan(made), [[True, False]] * 2)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.float16, tf.float64), (np.float32, tf.int32), (np.float32, tf.float16),
        (np.float64, tf.int64), (np.float64, tf.float32),
    ],
)  # fmt: skip
def test_binomial(given, dtype):
    counts, chances = COUNTS.astype(given), CHANCES.astype(given)
    check(lambda s: RANDOM.stateless_binomial([2, 5, 7], s, counts, chances, dtype), SEED)


def test_binomial_of_nan_and_of_nothing():
    check(lambda s: RANDOM.stateless_binomial([2, 2], s, 5.0, [np.nan, 0.5], tf.float32), SEED)
    check(lambda s: RANDOM.stateless_binomial([0, 2], s, 5.0, [0.3, 0.5], tf.float32), SEED)


def test_a_generator_draws_binomial_numbers():
    generator = RANDOM.Generator.from_state([5, 1, 99], alg="philox")
    check(
        lambda x: (generator.binomial([3, 2], [4.0, 200.0], 0.4), generator.uniform([2]) + x),
        np.float32(0),
    )


INFINITE = float("inf")
BOUNDS = {
    "around_the_mean": (-2.0, 1.5),
    "narrow": (-0.3, 0.2),
    "above": (2.5, INFINITE),
    "below": (-INFINITE, -1.0),
    "far": (4.0, 9.0),
    "far_and_narrow": (4.0, 4.1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_normal_numbers_between_bounds(name, dtype):
    low, high = (np.array(end, dtype) for end in BOUNDS[name])

    def draw(s, mean):
        return tf.raw_ops.StatelessParameterizedTruncatedNormal(
            shape=[3, 2, 2], seed=s, means=mean, stddevs=np.array([[1.0], [0.7]], dtype),
            minvals=low, maxvals=high,
        )  # fmt: skip

    check(draw, SEED, np.array([0.1, 0.0], dtype), tolerance=1e-3 if dtype is np.float16 else 1e-5)


def test_numbers_between_bounds_that_are_no_bounds():
    def draw(s, high):
        return RANDOM.stateless_parameterized_truncated_normal([2], s, maxvals=high)

    for high in (-9.0, np.nan):
        program = trace(draw, specs_of([SEED, np.float32(high)]))
        with pytest.raises(ExecutionError, match="Invalid parameters"):
            program.evaluate([SEED, np.float32(high)])
    check(lambda s: RANDOM.stateless_parameterized_truncated_normal([0, 3], s), SEED)


THREEFRY = {"key": np.array([7], np.uint64), "alg": 2}
XLA_NUMBERS = {
    "uniform": (
        lambda **given: tf.raw_ops.StatelessRandomUniformV2(shape=[5], **given),
        [0.29605138, 0.57066154, 0.9399321, 0.02928233, 0.49753654],
    ),
    "uniform_f64": (
        lambda **given: tf.raw_ops.StatelessRandomUniformV2(shape=[3], dtype=tf.float64, **given),
        [0.57066155, 0.02928236, 0.48779943],
    ),
    "uniform_f16": (
        lambda **given: tf.raw_ops.StatelessRandomUniformV2(shape=[3], dtype=tf.float16, **given),
        [0.8936, 0.03613, 0.1953],
    ),
    "uniform_bf16": (
        lambda **given: tf.raw_ops.StatelessRandomUniformV2(shape=[3], dtype=tf.bfloat16, **given),
        [0.294922, 0.570312, 0.9375],
    ),
    "normal": (
        lambda **given: tf.raw_ops.StatelessRandomNormalV2(shape=[3, 4], **given),
        [
            [-0.5749923, 1.450458, 0.19378185, 1.0413293],
            [0.98000795, -0.66011894, -1.1747395, -0.2359859],
            [0.030766873, 1.176439, 1.5268042, 0.43464598],
        ],
    ),
    "normal_of_odd_sizes": (
        lambda **given: tf.raw_ops.StatelessRandomNormalV2(shape=[3, 1, 5], **given),
        [
            [[-0.6701934, -1.4090016, 0.06439616, 0.34604684, 0.090490684]],
            [[-1.4316161, -0.2875882, 1.1506397, -0.24694861, 3.1846378]],
            [[1.0288885, 0.51241845, 0.52926046, -1.369905, -0.5899006]],
        ],
    ),
    "normal_scalar": (
        lambda **given: tf.raw_ops.StatelessRandomNormalV2(shape=[], dtype=tf.float64, **given),
        0.1937820227855391,
    ),
    "truncated": (
        lambda **given: tf.raw_ops.StatelessTruncatedNormalV2(shape=[5], **given),
        [-0.50912845, 0.1698766, 1.4045007, -1.6381028, -0.00589405],
    ),
    "truncated_bf16": (
        lambda **given: tf.raw_ops.StatelessTruncatedNormalV2(
            shape=[2], dtype=tf.bfloat16, **given
        ),
        [-0.507812, 0.168945],
    ),
    "integers": (
        lambda **given: tf.raw_ops.StatelessRandomUniformIntV2(
            shape=[4], minval=-5, maxval=1000, **given
        ),
        [381, 814, 394, 63],
    ),
    "bits": (
        lambda **given: tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[2], dtype=tf.int64, **given
        ),
        [-7919896443894495341, 540164180995433672],
    ),
    "nothing": (lambda **given: tf.raw_ops.StatelessRandomNormalV2(shape=[0], **given), []),
}
"""What TensorFlow 2.21's own XLA draws; its kernels have no ThreeFry."""


@pytest.mark.parametrize("name", sorted(XLA_NUMBERS))
def test_threefry(name):
    draw, wanted = XLA_NUMBERS[name]
    counter = np.array([5, 9], np.uint64)
    program = trace(lambda c: draw(counter=c, **THREEFRY), specs_of([counter]))
    (made,) = program.evaluate([counter])[0]
    tolerance = 1e-3 if made.dtype.itemsize == 2 else 1e-6
    np.testing.assert_allclose(
        made.astype(np.int64 if made.dtype.kind == "i" else np.float64), wanted, rtol=tolerance
    )


def test_a_seed_of_threefry():
    program = trace(lambda s: RANDOM.stateless_uniform([3], s, alg="threefry"), specs_of([SEED]))
    (made,) = program.evaluate([SEED])[0]
    np.testing.assert_allclose(made, [0.31629384, 0.37061703, 0.7426939], rtol=1e-7)


def test_a_generator_of_threefry():
    generator = RANDOM.Generator.from_state([5, 7], alg="threefry")

    def draw(x):
        return generator.uniform([3]) + x, generator.normal([2]), generator.skip(3)[:2]

    program = trace(draw, specs_of([np.float32(0)]))
    (uniform, normal, old), ((_, state),) = program.evaluate([np.float32(0)])
    np.testing.assert_allclose(uniform, XLA_NUMBERS["uniform"][1][:3], rtol=1e-6)
    np.testing.assert_allclose(normal, [0.6403081, 0.07243211], rtol=1e-6)
    np.testing.assert_array_equal(old, [5 + 5 * 256, 7])
    np.testing.assert_array_equal(state, [5 + 8 * 256, 7])
    generator.state.assign([5, 7])
    small = tf.Variable([0], dtype=tf.int64)
    skip = tf.raw_ops.RngReadAndSkip
    with pytest.raises(UnsupportedError, match="state must be at least 2; got 1"):
        trace(lambda: skip(resource=small.handle, alg=2, delta=np.uint64(2)), [])
    with pytest.raises(UnsupportedError, match="Unsupported algorithm id: 9"):
        trace(lambda: skip(resource=small.handle, alg=9, delta=np.uint64(2)), [])

"""Random numbers equal TensorFlow's own: uniform and integers bit for bit, normal within an ulp."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers

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


def test_a_hidden_random_state_is_refused():
    raw = tf.raw_ops
    with pytest.raises(Exception, match="keeps a hidden random state") as caught:
        check(
            lambda x: raw.ParameterizedTruncatedNormal(
                shape=[3], means=x, stdevs=x, minvals=x, maxvals=x
            ),
            np.float32(0),
        )
    assert "stateless" in str(caught.value)


LOGITS = numbers(5, 7, scale=2)
ALPHAS = np.array([0.3, 1.0, 2.5], np.float32)
STATELESS = {
    "shuffle": lambda s: RANDOM.experimental.stateless_shuffle(LOGITS, s),
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

# SPDX-License-Identifier: Apache-2.0
"""Families of ops of numbers that only TensorFlow's kernels do: they run beside what is compiled.

Where all their operands are constants they are done once, when the function is prepared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.programs.beside import COMPILED, assert_same  # noqa: E402

from ingot.frontends.tensorflow import hook  # noqa: E402
from ingot.frontends.tensorflow.partitioning import host_report  # noqa: E402

Program = Callable[..., Any]

FIRST = np.array([[1, 2, 3, 0], [4, 5, 0, 0], [0, 0, 0, 0]], np.int64)
SECOND = np.array([[1, 3, 0, 0], [4, 5, 6, 7], [8, 0, 0, 0]], np.int64)
CLASSES = np.array([[1], [5], [7]], np.int64)
LOGITS = np.random.default_rng(3).normal(size=(20, 3, 6)).astype(np.float32)
LENGTHS = np.array([20, 15, 3], np.int32)


def edit_distances(first: Any, second: Any) -> Any:
    first, second = tf.sparse.from_dense(first), tf.sparse.from_dense(second)
    return tf.edit_distance(first, second), 2.0 * tf.edit_distance(first, second, normalize=False)


def sets(first: Any, second: Any) -> Any:
    both = tf.sets.union(first, second)
    mixed = tf.sets.intersection(first, tf.sparse.from_dense(second))
    sparse = tf.sets.difference(tf.sparse.from_dense(first), tf.sparse.from_dense(second))
    return both, tf.sets.size(both) * 2, mixed, sparse


def sampled(name: str) -> Program:
    def run(classes: Any) -> Any:
        for unique in (True, False):
            found = getattr(tf.random, name)(classes, 1, 10, unique, 100, seed=3)
            yield found.sampled_candidates * 2, tf.math.log(found.sampled_expected_count)

    return lambda classes: list(run(classes))


def other_samplers(classes: Any) -> Any:
    shares = [float(n + 1) for n in range(10)]
    fixed = tf.random.fixed_unigram_candidate_sampler(
        classes, 1, 5, True, 10, unigrams=shares, seed=2
    )
    every = tf.random.all_candidate_sampler(classes, 1, 10, True, seed=2)
    return fixed[0] * 2, every, tf.nn.compute_accidental_hits(classes, every[0], 1)


def matrix_logarithm(x: Any) -> Any:
    return tf.math.real(tf.linalg.logm(tf.cast(x, tf.complex64))) * 2.0


def decoded(logits: Any, lengths: Any) -> Any:
    greedy = tf.nn.ctc_greedy_decoder(logits * 2.0, lengths)
    return greedy, tf.nn.ctc_beam_search_decoder(logits * 2.0, lengths, 5, 2)


def crossed(first: Any, second: Any) -> Any:
    columns = [tf.sparse.from_dense(first), second]
    return tf.sparse.cross_hashed(columns, 100), tf.sparse.cross(columns).dense_shape * 2


def sobol(count: Any) -> Any:
    return tf.math.sobol_sample(4, count, skip=3) * 2.0, tf.math.sobol_sample(
        3, count, 1, "float64"
    )


FAMILIES: dict[str, tuple[Program, tuple[Any, ...]]] = {
    "edit distances": (edit_distances, (FIRST, SECOND)),
    "sets": (sets, (FIRST, SECOND)),
    "uniform sampler": (sampled("uniform_candidate_sampler"), (CLASSES,)),
    "log-uniform sampler": (sampled("log_uniform_candidate_sampler"), (CLASSES,)),
    "learned sampler": (sampled("learned_unigram_candidate_sampler"), (CLASSES,)),
    "other samplers": (other_samplers, (CLASSES,)),
    "matrix logarithm": (matrix_logarithm, (np.array([[3.0, 1], [1, 2]], np.float32),)),
    "CTC decoders": (decoded, (LOGITS, LENGTHS)),
    "crosses": (crossed, (FIRST, SECOND)),
    "Sobol": (sobol, (np.int32(12),)),
}


def results(program: Program, jit: Any, *operands: Any) -> list[np.ndarray]:
    """Return the flat results of two calls, from one seed."""
    tf.random.set_seed(5)
    function = tf.function(program, jit_compile=jit)
    found = [function(*map(tf.constant, operands)) for _ in range(2)]
    return [np.asarray(item) for item in tf.nest.flatten(found, expand_composites=True)]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_runs_on_the_host(name: str) -> None:
    program, operands = FAMILIES[name]
    wanted = results(program, None, *operands)
    assert_same(results(program, True, *operands), wanted)
    assert COMPILED


def spectral_norm(x: Any) -> Any:
    """TensorFlow finds its axes by loops over lists that only it can hold."""
    return tf.linalg.norm(x, 2, axis=[0, 2], keepdims=True), tf.linalg.norm(x, 2, axis=[-2, -1])


def constant_sobol(x: Any) -> Any:
    return tf.math.sobol_sample(3, 8, 2) + x[0, :3, :1][:, 0]


def constant_text(x: Any) -> Any:
    words = tf.strings.split(tf.constant("2.5 -1 4"), " ")
    return tf.strings.to_number(words) * x[0, :3, 0], tf.strings.length(words[0])


def in_a_branch(x: Any) -> Any:
    made = lambda sign: tf.strings.to_number(tf.constant("2.5")) * sign * x  # noqa: E731
    return tf.cond(tf.reduce_sum(x) > 0, lambda: made(1.0), lambda: made(-3.0))


def for_the_host(x: Any) -> Any:
    """The constant is an operand of another op on the host, and a result."""
    numbers = tf.math.sobol_sample(3, 8, 2, tf.float64)
    text = tf.strings.as_string(numbers + tf.cast(x[0, 0, 0], tf.float64))
    return tf.strings.join([tf.strings.as_string(x[0, :3]), text[:3]]), numbers, x * 2.0


CONSTANT: dict[str, Program] = {
    "norm": spectral_norm,
    "Sobol": constant_sobol,
    "text": constant_text,
    "branch": in_a_branch,
}


def test_a_constant_that_the_host_takes() -> None:
    x = np.full((1, 3, 3), 0.5, np.float32)
    have, want = (results(for_the_host, jit, x) for jit in (True, None))
    for one, other in zip(have, want, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CONSTANT)
def test_what_constants_decide_cuts_no_function(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "_told", set())
    x = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(np.float32)
    wanted = results(CONSTANT[name], None, x)
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        assert_same(results(CONSTANT[name], True, x), wanted)
    assert not caplog.records
    assert COMPILED


def test_strict_mode_takes_constants_as_xla_does() -> None:
    hook.disable()
    hook.enable(strict=True)
    x = np.ones((1, 3, 1), np.float32)
    assert_same(results(constant_sobol, True, x), results(constant_sobol, None, x))


def test_a_constant_that_the_kernel_refuses_is_an_error_of_each_call() -> None:
    program = tf.function(lambda x: tf.strings.to_number(tf.constant("two")) * x, jit_compile=True)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumberOp"):
            program(tf.constant(1.0))

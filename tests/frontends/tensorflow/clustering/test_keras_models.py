# SPDX-License-Identifier: Apache-2.0
"""The word for models that Keras leaves uncompiled: said where nobody decided, and only there."""

import logging

import pytest

keras = pytest.importorskip("keras")

from ingot.frontends.tensorflow import hook  # noqa: E402
from ingot.frontends.tensorflow.clustering import keras_models  # noqa: E402

WORD = "models that Keras leaves uncompiled"


@pytest.fixture
def word(caplog):
    """Return how often the word is said when a model is compiled with some arguments."""
    hook.disable()
    hook.enable()
    caplog.set_level(logging.WARNING)

    def said(*args, **kwargs):
        keras_models._tell.cache_clear()
        caplog.clear()
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile(*args, **kwargs)
        return sum(WORD in record.getMessage() for record in caplog.records)

    yield said
    hook.disable()


def test_it_is_said_where_nobody_decided(word):
    assert word("sgd", "mse") == 1
    assert word("sgd", "mse", jit_compile="auto") == 1


@pytest.mark.parametrize("jit_compile", [True, False])
def test_it_is_not_said_where_the_user_decided(word, jit_compile):
    assert word("sgd", "mse", jit_compile=jit_compile) == 0
    assert word("sgd", "mse", None, None, None, False, 1, jit_compile) == 0


def test_it_is_not_said_of_models_that_run_eagerly(word):
    assert word("sgd", "mse", run_eagerly=True) == 0

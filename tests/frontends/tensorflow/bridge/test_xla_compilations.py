# SPDX-License-Identifier: Apache-2.0
"""The count of what the built-in XLA compiles, which the suite holds at 0, can be another."""

import tensorflow as tf
from tests.xla_compilations import on_purpose, unasked

from ingot.frontends.tensorflow import hook


def _run() -> None:
    tf.function(lambda x: x * 2.0, jit_compile=True)(tf.ones([3]))


def test_the_builtin_xla_is_counted() -> None:
    hook.disable()
    before = unasked()
    with on_purpose():
        _run()
        assert unasked() == before + 1
    assert unasked() == before


def test_ingot_is_not(compiled: list[str]) -> None:
    before = unasked()
    _run()
    assert compiled
    assert unasked() == before

"""These programs need TensorFlow: each runs as plain TensorFlow and compiled by Ingot."""

import pytest

pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.programs.beside import COMPILED, counting_compiler

from ingot.frontends.tensorflow import hook


@pytest.fixture(autouse=True)
def compiled():
    """Compile with Ingot what a test marks `jit_compile=True`; the value lists what was compiled."""
    hook.disable()
    hook.enable(counting_compiler)
    COMPILED.clear()
    yield COMPILED
    hook.disable()

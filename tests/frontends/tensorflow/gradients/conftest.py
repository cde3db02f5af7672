# SPDX-License-Identifier: Apache-2.0
"""These programs need TensorFlow: each runs as plain TensorFlow and compiled by Ingot."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))

from tests.frontends.tensorflow.programs.beside import COMPILED, counting_compiler

from ingot.frontends.tensorflow import hook


@pytest.fixture(autouse=True)
def compiled():
    """Compile with Ingot what is marked `jit_compile=True`; the value lists what was compiled."""
    hook.disable()
    hook.enable(counting_compiler)
    COMPILED.clear()
    yield COMPILED
    hook.disable()

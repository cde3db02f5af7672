# SPDX-License-Identifier: Apache-2.0
"""These programs need TensorFlow: each runs as plain TensorFlow and compiled by Ingot."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")
sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))

from tests.frontends.tensorflow.programs.beside import compiled

__all__ = ["compiled"]

# SPDX-License-Identifier: Apache-2.0
"""What Ingot's tests under TensorFlow share: the built-in XLA must compile nothing."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest


@pytest.fixture(scope="module", autouse=True)
def nothing_compiled_by_xla() -> Generator[None]:
    """Fail if TensorFlow's own XLA compiled a program in a file's tests."""
    from tests.xla_compilations import unasked

    before = unasked() if "tensorflow" in sys.modules else 0
    yield
    if "tensorflow" in sys.modules:
        assert unasked() == before, "TensorFlow's built-in XLA compiled programs in this file"

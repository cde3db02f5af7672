# SPDX-License-Identifier: Apache-2.0
"""The bridge with a stand-in compiler: every test sees which functions were compiled."""

import pytest

pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.bridge.interpreter import LOG, compile_stub

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.functions import replacement


@pytest.fixture
def compiled():
    """Enable the bridge; the value is the list of functions that were compiled."""
    hook.disable()
    hook.enable(compile_stub)
    LOG.clear()
    yield LOG
    hook.disable()


@pytest.fixture(params=["direct", "around"])
def access(request, monkeypatch):
    """Both ways to reach variables: inside the launch, and by TensorFlow's ops around it."""
    if request.param == "around":
        monkeypatch.setattr(replacement, "is_available", lambda: False)
    return request.param

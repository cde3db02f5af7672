"""The bridge with a stand-in compiler: every test sees which functions were compiled."""

import pytest

pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.bridge.interpreter import LOG, compile_stub

from ingot.frontends.tensorflow import hook


@pytest.fixture
def compiled():
    """Enable the bridge; the value is the list of functions that were compiled."""
    hook.disable()
    hook.enable(compile_stub)
    LOG.clear()
    yield LOG
    hook.disable()

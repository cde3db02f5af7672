"""What every test shares: a quiet and repeatable environment, and how GPU tests are skipped.

The environment is set here, before any test imports a framework, because TensorFlow and Ingot
read it at import.
"""

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for _variable in [name for name in os.environ if name.startswith("INGOT_")]:
    # A switch of the developer's shell must not decide a test; the cache stays where it is.
    if _variable != "INGOT_CACHE_DIR":
        del os.environ[_variable]

# Deadlines measure the machine, not the code; the same examples every time, so that a failure in
# continuous integration is a failure here.
settings.register_profile(
    "ingot", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ingot")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `gpu` on a machine without an NVIDIA driver."""
    if shutil.which("nvidia-smi") is not None:
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(skip)

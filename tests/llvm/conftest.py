# SPDX-License-Identifier: Apache-2.0
"""Objects of these tests are cached in a folder of the session, never in the user's home."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory):
    patch = pytest.MonkeyPatch()
    patch.setenv("INGOT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()

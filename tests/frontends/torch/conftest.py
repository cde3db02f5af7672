# SPDX-License-Identifier: Apache-2.0
"""What the tests of PyTorch's front end share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _guards_are_not_timed() -> Iterator[None]:
    """Let TorchDynamo not measure how long its guards take, which flushes the processor's caches.

    It does so at each compilation, for a log that nobody reads here.
    """
    import torch._dynamo.guards

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
        yield
